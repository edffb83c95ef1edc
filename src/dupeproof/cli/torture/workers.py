"""The consumers under torture: started, killed, frozen and started again."""

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

from msgspec import to_builtins

from dupeproof.cli.torture.pipes import Pipe
from dupeproof.cli.torture.worker import CONFIG, Config
from dupeproof.errors import ConfigError

_START_SECONDS = 60.0
_MOST_DEATHS = 8
"""Of its own, in a row and with nothing done: then it is the handler, not the torture."""


class Worker:
    """One place for a consumer. Who sits there changes."""

    def __init__(self, config: Config, log: Path, pipe: Pipe | None) -> None:
        self._config = json.dumps(to_builtins(config))
        self._log = log
        self._pipe = pipe
        self._tallies: list[Counter[str]] = []
        self._thaw: threading.Timer | None = None
        self.own_deaths = 0
        self._in_vain = 0
        self.last_word = 0.0
        self.start()

    def start(self) -> None:
        self._ready = threading.Event()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dupeproof.cli.torture.worker"],
                env={**os.environ, CONFIG: self._config},  # not an argument, which everybody can see
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        tally: Counter[str] = Counter()
        self._tallies.append(tally)
        self._listener = threading.Thread(
            target=self._listen, args=(self._process, self._ready, tally), daemon=True
        )
        self._listener.start()

    def _listen(
        self, process: "subprocess.Popen[bytes]", ready: threading.Event, tally: Counter[str]
    ) -> None:
        """Until it is dead. What it acknowledged counts, whenever it is read."""
        assert process.stdout is not None
        assert process.stdin is not None
        with process.stdout as said:
            for line in said:
                if not line.endswith(b"\n"):
                    break  # the last thing it wanted to say
                word = json.loads(line)
                self.last_word = time.monotonic()
                if "ready" in word:
                    if self._pipe is not None:
                        self._pipe.attach(process.stdin)
                    ready.set()
                elif "acknowledged" in word and self._pipe is not None:
                    self._pipe.acknowledge(word["acknowledged"])
                elif "tally" in word:
                    tally.update(Counter(word["tally"]) - tally)

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    @property
    def tally(self) -> Counter[str]:
        """Of all who sat here; the last tenth of a second of those who were killed is missing."""
        return sum(self._tallies, Counter())

    def kill(self) -> None:
        self._process.kill()
        self._ended()
        self.start()

    def freeze(self, seconds: float) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        # By a timer: it may hold a lock that whoever counts effects waits for.
        self._thaw = threading.Timer(seconds, self._go_on, [self._process])
        self._thaw.start()

    @staticmethod
    def _go_on(process: "subprocess.Popen[bytes]") -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)

    def look(self) -> None:
        """Put another one in its place if it died by itself."""
        if self._process.poll() is not None:
            self._ended()
            self.own_deaths += 1
            self._in_vain = 0 if self._tallies[-1] else self._in_vain + 1
            if self._in_vain >= _MOST_DEATHS:
                raise ConfigError(
                    f"the consumer ended by itself {self._in_vain} times; the end of what it said:\n{self.said()}"
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

    def said(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """As a process manager would: SIGTERM, and SIGKILL for who does not listen."""
        if self._process.poll() is None:
            self._process.terminate()
            self._go_on(self._process)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._ended()
