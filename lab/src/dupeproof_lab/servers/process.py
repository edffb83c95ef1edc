"""Start a program so that it never outlives this process, and find it a port."""

import atexit
import contextlib
import os
import pwd
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from . import warden

# Below the range the system hands out for outgoing connections (32768 and up): while a server is down, no
# client, not even one that tries to reach this very server, can be given its port. The port 10,000 above
# is Redis Cluster's second one, and is below that range too.
PORTS = range(12000, 22000)
BUS_OFFSET = 10000

# Waits for one line before it becomes the program, so that the warden knows of it before it runs at all.
GATE = 'read -r go && exec "$@" </dev/null'

_lock = threading.Lock()
_taken: set[int] = set()
_wardens: dict[int, subprocess.Popen[bytes]] = {}  # by our own process id: a forked child needs its own


def free_port() -> int:
    """A port of the loopback that nobody listens on, not given twice by one process."""
    for port in random.sample(PORTS, 200):
        with _lock:
            if port in _taken:
                continue
            _taken.add(port)
        if _is_free(port) and _is_free(port + BUS_OFFSET):
            return port
    raise RuntimeError(f"no free port among 200 tried between {PORTS.start} and {PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def tell_warden(line: str) -> None:
    """Hand one line to this process's warden, which is started at the first one."""
    with _lock:
        if os.getpid() not in _wardens:
            command = [sys.executable, "-I", "-S", warden.__file__, str(os.getpid())]
            # A session of its own: what ends the test run's group (Ctrl-C, a CI's time limit) must not end it.
            _wardens[os.getpid()] = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, start_new_session=True
            )
            atexit.register(_dismiss_warden, os.getpid())
        pipe = _wardens[os.getpid()].stdin
        assert pipe is not None
        pipe.write(os.fsencode(line + "\n"))
        pipe.flush()


def _dismiss_warden(owner: int) -> None:
    """At a normal exit the warden ends what was left running, and is waited for."""
    if owner == os.getpid():
        _wardens[owner].communicate()


def spawn(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    log: IO[bytes],
    user: int | None = None,
    env: Mapping[str, str] | None = None,
    end_signal: int,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; it ends, by that signal, when this process does."""
    process = subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", GATE, "sh", *map(str, command)],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=None if env is None else {**os.environ, **env},
        user=user,
        group=None if user is None else pwd.getpwuid(user).pw_gid,
        extra_groups=None if user is None else [],
    )
    tell_warden(f"start {process.pid} {int(end_signal)}")
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as gate:
        gate.write(b"go\n")
    process.stdin = None
    return process


def forget(process: subprocess.Popen[bytes]) -> None:
    """Read the exit code of a process that is over, and take it off the warden's list."""
    process.wait()
    tell_warden(f"ended {process.pid}")
