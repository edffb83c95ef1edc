"""What every server can do: start, stop, be killed, restarted, paused; alone or as a group."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from . import process, warden
from .install import ensure

START_SECONDS = 60.0
STOP_SECONDS = 10.0


class ServerFailed(RuntimeError):
    """A server did not start, or did not get into the state it was waited for; the text ends with its log."""


def wait_until(check: Callable[[], bool], *, seconds: float = START_SECONDS, what: str) -> None:
    """Ask until the answer is yes. A server that refuses, or is not up yet, answers no."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if check():
                return
        if time.monotonic() > deadline:
            raise ServerFailed(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(0.02)


class Server(ABC):
    """A server under our control. `name` is how tests, variables (`NAME_URL`) and the package table call it."""

    name: str

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers. After `kill`: the same port and data again."""

    @abstractmethod
    def stop(self) -> None:
        """End it and remove its data. Stopping twice is fine."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL, with all the processes it started. Port and data are kept for `start`."""

    @abstractmethod
    def restart(self) -> None:
        """End it properly, if it still runs, and start it on the same port and data."""

    @abstractmethod
    def pause(self) -> None:
        """SIGSTOP: connections stay open and nobody answers."""

    @abstractmethod
    def resume(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ProcessServer(Server):
    """A server that is one process. A new one says its `command`, when it is `ready`, and what to `prepare`."""

    end_signal: ClassVar[signal.Signals] = signal.SIGTERM
    orphan_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, *, port: int | None = None, search: Sequence[str] | None = None) -> None:
        self._search = search
        self._fixed_port = port
        self._port = port
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._settled = False

    def programs(self) -> dict[str, Path]:
        """Where its programs are, in the folders to `search` or the usual ones; installed first where they are missing."""
        return ensure(self.name, self._search)

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """What to run, in the foreground."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it answers. May raise OSError for no."""

    def prepare(self) -> None:
        """Fill the new, empty home folder. Called once, before the first launch."""

    def discard(self) -> None:
        """Remove what it left outside its home folder. Called when it is stopped for good."""

    @property
    def user(self) -> int | None:
        """Whom to run it as, None for whoever runs us. Asked only once its programs are there: a package may bring the user."""
        return None

    @property
    def port(self) -> int:
        if self._port is None:
            self._port = process.free_port()
        return self._port

    @property
    def home(self) -> Path:
        """Its own temporary folder: configuration, data and log."""
        if self._home is None:
            raise RuntimeError(f"{self.name} is not started")
        return self._home

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """The first half of `start`, so that several can be started at a time."""
        if self.pid is not None:
            return
        if self._process is not None:
            self._ended()
        self.programs()
        if self._home is None:
            self._home = Path(tempfile.mkdtemp(prefix=f"dupeproof-{self.name}-"))
            process.tell_warden(f"folder {self._home}")
            if self.user is not None:
                os.chown(self._home, self.user, -1)
            self.prepare()
        with self.log.open("ab") as log:
            self._process = process.spawn(
                self.command(), cwd=self.home, log=log, user=self.user, end_signal=self.orphan_signal
            )

    def wait_ready(self) -> None:
        def answers() -> bool:
            if self.pid is None:
                raise ServerFailed("it ended by itself")
            return self.ready()

        try:
            wait_until(answers, what="no answer")
        except ServerFailed as error:
            if not self._may_move():
                text = f"{self.name} on port {self.port} did not start: {error}\n{self.tail()}"
                raise ServerFailed(text) from None
            self.stop()
            self.launch()
            self.wait_ready()
        self._settled = True

    def _may_move(self) -> bool:
        """Somebody took the port between our look at it and the start: another will do, if nobody knows it yet."""
        taken = self.pid is None and "address already in use" in self.tail().lower()
        return taken and not self._settled and self._fixed_port is None

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    def tail(self, lines: int = 20) -> str:
        """The end of its log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return "(no log)"

    def end(self) -> None:
        """End the process properly, within a bounded time; port and data are kept."""
        if (pid := self.pid) is not None:
            warden.end(pid, self.end_signal, STOP_SECONDS)
        self._ended()

    def stop(self) -> None:
        self.end()
        if self._home is not None:
            self.discard()
            shutil.rmtree(self._home, ignore_errors=True)
            process.tell_warden(f"removed {self._home}")
        self._home = None
        self._port = self._fixed_port
        self._settled = False

    def kill(self) -> None:
        if (pid := self.pid) is not None:
            warden.destroy(pid)
        self._ended()

    def restart(self) -> None:
        self.end()
        self.start()

    def pause(self) -> None:
        if (pid := self.pid) is not None:
            warden.freeze(pid)

    def resume(self) -> None:
        if (pid := self.pid) is not None:
            warden.send(warden.tree(pid), signal.SIGCONT)

    def _ended(self) -> None:
        if self._process is not None:
            process.forget(self._process)
            self._process = None
