"""Worker processes that a test steps through, stops, continues and kills."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

MAIN = Path(__file__).with_name("worker_main.py")


def wait_for(check: Callable[[], object], *, seconds: float = 20.0, what: str = "it") -> None:
    """Ask until the answer is yes."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.01)


def run_main(before: Sequence[str], kind: str, line: socket.socket, *args: str) -> subprocess.Popen[bytes]:
    command = [*before, sys.executable, "-W", "error", str(MAIN), kind, str(line.fileno()), *args]
    return subprocess.Popen(command, pass_fds=[line.fileno()])


class Nursery:
    """Forks workers from a process that has imported everything already."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = run_main((), "nursery", theirs)

    def start(self, url: str, **options: object) -> "Worker":
        ours, theirs = socket.socketpair()
        with theirs:
            request = json.dumps({"url": url, **options}).encode()
            socket.send_fds(self._requests, [request], [theirs.fileno()])
        return Worker(ours)

    def close(self) -> None:
        self._requests.close()
        assert self._process.wait(10) == 0


def start_behind(before: Sequence[str], url: str, **options: object) -> "Worker":
    """A worker in a process started by another program, such as one that shifts its clock."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = run_main(before, "worker", theirs, json.dumps({"url": url, **options}))
    return Worker(ours, process)


class Worker:
    """One process with a `Once` of its own."""

    def __init__(self, line: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self._line = line
        self._process = process
        self._heard = b""
        self._pid = 0

    @property
    def pid(self) -> int:
        if not self._pid:
            self._pid = self.hear()["pid"]
        return self._pid

    def run(self, key: str, value: object = None, **order: object) -> dict:
        return self.ask(do="run", key=key, value=value, **order)

    def ask(self, **order: object) -> dict:
        """Give an order; the next thing it says, which is the answer or the step at which it waits."""
        self.send(**order)
        return self.hear()

    def go_on(self) -> dict:
        return self.ask()

    def send(self, **order: object) -> None:
        assert self.pid
        self._line.sendall(json.dumps(order).encode() + b"\n")

    def hear(self, seconds: float = 30.0) -> dict:
        self._line.settimeout(seconds)
        while b"\n" not in self._heard:
            chunk = self._line.recv(65536)
            assert chunk, "the worker has ended"
            self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        status = Path(f"/proc/{self.pid}/stat")
        wait_for(lambda: status.read_text().rpartition(")")[2].split()[0] == "T", what="the worker to stop")

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone, and its end of the line with it."""
        os.kill(self.pid, signal.SIGKILL)
        self._line.settimeout(10)
        while self._line.recv(65536):
            continue

    def close(self) -> None:
        """It ends by itself when nobody is on the line; one that cannot hear that is killed."""
        if self._pid and Path(f"/proc/{self._pid}").exists():
            os.kill(self._pid, signal.SIGKILL)
        self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
