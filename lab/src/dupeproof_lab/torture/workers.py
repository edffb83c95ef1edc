"""The processes under torture, consumers and the relay: started, stopped at a point, killed, frozen and started again."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from dupeproof.errors import ConfigError
from dupeproof.outbox.messages import Message
from dupeproof_lab.torture.faults import Point
from dupeproof_lab.torture.pipes import Pipe, PipeBroker
from dupeproof_lab.torture.probe import OnPurpose
from dupeproof_lab.torture.worker import CONFIG, Config

_MOST_DEATHS = 8
"""Of its own, in a row and with nothing done: then it is the handler, not the torture."""
_SETTLE_SECONDS = 0.05
"""In which what a stopped process has said before is read."""


class Held(Struct, frozen=True):
    """It waits at a point for what was ordered."""

    number: int
    """Of the order."""
    point: Point
    in_hand: list[str]
    """The messages it works on together."""


class Said(Struct):
    """What was told, by all who sat here."""

    tally: Counter[str]
    failed: int = 0
    """Attempts that failed on purpose."""
    published: int = 0
    down: str | None = None
    """Why nothing could be published, the last time."""
    calls: list[tuple[float, str, str]] = []
    """Of a user's handler: when a call returned, of which message, with which key."""


class Worker:
    """One place for a process. Who sits there changes."""

    def __init__(
        self, config: Config, log: Path, *, pipe: Pipe | None = None, pipes: PipeBroker | None = None
    ) -> None:
        self._config = json.dumps(to_builtins(config))
        self._log = log
        self._pipe, self._pipes = pipe, pipes
        self._thaw: threading.Timer | None = None
        self.said = Said(Counter())
        self.own_deaths = 0
        self._in_vain = 0
        self.last_word = 0.0
        self.generation = 0
        """How many have sat here."""
        self.start()

    def start(self) -> None:
        self.generation += 1
        self._ready = threading.Event()
        self.held: Held | None = None
        self.met: str | None = None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dupeproof_lab.torture.worker"],
                env={**os.environ, CONFIG: self._config},  # not an argument, which everybody can see
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._tally: Counter[str] = Counter()
        """Of this one."""
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        """Until it is dead. What it acknowledged counts, whenever it is read."""
        assert process.stdout is not None
        with process.stdout as said:
            for line in said:
                if not line.endswith(b"\n"):
                    break  # the last thing it wanted to say
                self.last_word = time.monotonic()
                self._hear(json.loads(line), process)

    def _hear(self, word: dict[str, Any], process: "subprocess.Popen[bytes]") -> None:
        match word:
            case {"ready": True}:
                if self._pipe is not None:
                    assert process.stdin is not None
                    self._pipe.attach(process.stdin)
                self._ready.set()
            case {"acknowledged": numbers} if self._pipe is not None:
                self._pipe.acknowledge(numbers)
            case {"publish": fields, "number": number} if self._pipes is not None:
                self._pipes.publish(
                    [Message(**each | {"payload": each["payload"].encode()}) for each in fields]
                )
                self.tell({"confirmed": number})
            case {"tally": tally}:
                more = Counter(tally) - self._tally
                self._tally.update(more)
                self.said.tally.update(more)
            case {"held": number, "point": point, "in_hand": ids}:
                self.held = Held(number, Point(point), ids)
            case {"released": _}:
                self.held = None
            case {"met": ident}:
                self.met = ident
            case {"called": ident, "key": key, "at": moment}:
                self.said.calls.append((moment, ident, key or ""))
            case {"failed": number}:
                self.said.failed += number
            case {"published": number}:
                self.said.published += number
            case {"down": text}:
                self.said.down = text

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    def tell(self, word: dict[str, Any]) -> None:
        """To whoever sits here now; nothing happens when it is dead."""
        with contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(word).encode() + b"\n")
            self._process.stdin.flush()

    def hold(self, number: int, point: Point, *, alone: bool, unnamed: bool) -> None:
        """Let it wait at the point when it comes there next; if wanted, only in a message that is sent once, or without an id."""
        order = {"order": "hold", "number": number, "point": point, "alone": alone, "unnamed": unnamed}
        self.tell(order)

    def go(self) -> None:
        self.tell({"order": "go"})

    def watch(self, ids: list[str]) -> None:
        """Have it tell when it meets one of these messages."""
        self.met = None
        self.tell({"order": "watch", "ids": ids})

    def is_held(self, number: int) -> Held | None:
        held = self.held
        return held if held is not None and held.number == number else None

    def kill(self, number: int) -> Held | None:
        """Where it was, if it died at the point it was ordered to wait at: it had not gone on from there."""
        self._process.kill()
        self._ended()
        held = self.is_held(number)
        self.start()
        return held

    def freeze(self, number: int, seconds: float) -> Held | None:
        held = self.stop_clock(number)
        # By a timer: it may hold a lock that whoever counts effects waits for.
        self._thaw = threading.Timer(seconds, self._go_on, [self._process])
        self._thaw.start()
        return held

    def stop_clock(self, number: int) -> Held | None:
        """Until `thaw`; where it was."""
        os.kill(self._process.pid, signal.SIGSTOP)
        time.sleep(_SETTLE_SECONDS)
        return self.is_held(number)

    def thaw(self) -> None:
        self._go_on(self._process)

    @staticmethod
    def _go_on(process: "subprocess.Popen[bytes]") -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)

    def look(self) -> None:
        """Put another one in its place if it died by itself."""
        if self._process.poll() is not None:
            self._ended()
            self.own_deaths += 1
            self._in_vain = 0 if self._tally else self._in_vain + 1
            if self._in_vain >= _MOST_DEATHS:
                raise ConfigError(
                    f"the consumer ended by itself {self._in_vain} times; the end of what it said:\n{self.log()}"
                )
            self.start()

    def _ended(self) -> None:
        self._process.wait(30)
        if self._thaw is not None:
            self._thaw.cancel()
        self._listener.join(30)
        assert self._process.stdin is not None
        if self._pipe is not None:
            self._pipe.detach()
        with contextlib.suppress(OSError):  # what was still to be written, nobody reads
            self._process.stdin.close()

    def log(self, lines: int = 15) -> str:
        """The end of what it has written, without the failures that were wanted."""
        written = self._log.read_text(errors="replace").splitlines()
        return "\n".join([line for line in written if OnPurpose.__name__ not in line][-lines:])

    def stop(self) -> None:
        """As a process manager would: SIGTERM, and SIGKILL for who does not listen."""
        if self._process.poll() is None:
            self.go()
            self._process.terminate()
            self._go_on(self._process)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._ended()
