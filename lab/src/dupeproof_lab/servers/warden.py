"""End the servers of a process that died, whatever it died of. Runs as a program of its own.

A test run that is killed with SIGKILL cannot tidy up, so somebody else has to. The kernel's parent-death
signal is no help: it is tied to the thread that started the child, is lost when the child changes its user,
and PostgreSQL takes it for a request to wait for its clients. So one small process per test run watches the
run through a pidfd, and reads line by line what there is to end and to remove: `start pid signal`, `ended pid`,
`folder path`, `removed path`.

Standard library only and no imports from the package: it must start fast, and from any folder.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

GRACE = 5.0  # seconds a server has to go by itself


def stat(pid: int) -> tuple[str, int] | None:
    """State letter and parent of a process, None when there is no such process."""
    try:
        # The name, in brackets, may hold spaces and brackets of its own: read from the last one on.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def running(pid: int) -> bool:
    """A zombie does not run: it only waits for somebody to read its exit code."""
    found = stat(pid)
    return found is not None and found[0] not in "ZX"


def tree(root: int) -> list[int]:
    """The process and all its descendants. PostgreSQL's are each in a session of their own, so no group has them all."""
    children: dict[int, list[int]] = {}
    for pid in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        if (found := stat(pid)) is not None:
            children.setdefault(found[1], []).append(pid)
    pids = [root]
    for pid in pids:
        pids.extend(children.get(pid, ()))
    return pids


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(root: int) -> list[int]:
    """Stop a process with its descendants and say which they are. The root first, so that it starts no more of them."""
    send([root], signal.SIGSTOP)
    pids = tree(root)
    send(pids, signal.SIGSTOP)
    return pids


def gone(pids: list[int], seconds: float) -> bool:
    """Wait until none of them runs."""
    deadline = time.monotonic() + seconds
    while any(running(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def end(root: int, number: int, seconds: float = GRACE) -> None:
    """Ask a process to go; after that long, end it. What it started and did not take along is ended too."""
    pids = tree(root)
    send(pids, signal.SIGCONT)  # one that is paused could not hear
    send([root], number)
    if gone([root], seconds):
        send([pid for pid in pids if running(pid)], signal.SIGKILL)
        gone(pids, GRACE)
    else:
        destroy(root)


def destroy(root: int) -> None:
    pids = freeze(root)
    send(pids, signal.SIGKILL)
    gone(pids, GRACE)


def main(watched: int) -> None:
    os.chdir("/")
    processes: dict[int, int] = {}
    folders: set[str] = set()
    poll = select.poll()
    with contextlib.suppress(ProcessLookupError):  # already gone: its last lines are still in the pipe
        poll.register(os.pidfd_open(watched), select.POLLIN)
    poll.register(0, select.POLLIN)
    rest = b""
    while True:
        ready = dict(poll.poll())
        chunk = os.read(0, 65536) if 0 in ready else b""
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            verb, what = os.fsdecode(line).split(" ", 1)
            match verb:
                case "start":
                    pid, number = map(int, what.split())
                    processes[pid] = number
                case "ended":
                    processes.pop(int(what), None)
                case "folder":
                    folders.add(what)
                case "removed":
                    folders.discard(what)
        # The pipe may stay open in a child the run forked, and may still hold lines when the run is gone:
        # only "ready, and nothing to read" says that it is over.
        if not chunk:
            break
    for pid, number in processes.items():  # all are asked before the first is waited for
        send(tree(pid), signal.SIGCONT)
        send([pid], number)
    for pid, number in processes.items():
        end(pid, number)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
