"""Run one consumer to the end of its queue, in processes that are killed with SIGKILL at random moments.

Used as `python -m dupeproof_lab.demo.kills CONSUMER FOLDER SEED DELIVERIES`. Standard output gets one byte per
kill; standard input is never read, but its end means that the parent is gone, and everything stops.

The consumers are forked, which makes a new life cost milliseconds. That is only allowed because this process has no
thread and no SQLite connection at the time: SQLite's own notes on its locks would be wrong in the child.
"""

import os
import random
import select
import signal
import sys
import time
import traceback
from pathlib import Path

from dupeproof_lab.demo.consumers import CONSUMERS

_MOST_KILLS = 250
"""More than ever come about; after them the consumer is left alone, so that the demo surely ends."""
_STDIN, _STDOUT = 0, 1


class Killer:
    def __init__(self, name: str, folder: Path, seed: int, deliveries: int) -> None:
        self._name = name
        self._folder = folder
        self._seed = seed
        self._deliveries = deliveries
        self._rng = random.Random(seed)  # noqa: S311 - no secret
        self._mean = 0.004
        """Seconds one delivery takes, as seen last."""

    def run(self) -> None:
        lives = 0
        while self._live(lives, doomed=lives < _MOST_KILLS):
            lives += 1
            os.write(_STDOUT, b"k")

    def _live(self, life: int, *, doomed: bool) -> bool:
        """One life of the consumer. True when it was killed, False when it came to the end of the queue."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            self._consume(life, writing)
        os.close(writing)
        count = self._rng.randint(1, 2 * self._deliveries)
        share = self._rng.random()
        try:
            if self._watch(reading, count if doomed else sys.maxsize):
                # Somewhere within the delivery that has just begun, each moment as likely as the other.
                time.sleep(share * self._mean)
            else:
                count = 0
        finally:
            if count:
                os.kill(pid, signal.SIGKILL)
            os.close(reading)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code not in (0, -signal.SIGKILL):
            sys.exit(f"the {self._name} consumer failed")
        return code == -signal.SIGKILL

    def _watch(self, reading: int, count: int) -> bool:
        """Wait until so many deliveries have begun; False when the consumer ended by itself before."""
        began = time.monotonic()
        seen = 0
        while seen < count:
            ready, _, _ = select.select([reading, _STDIN], [], [])
            if _STDIN in ready:
                sys.exit(1)
            announced = len(os.read(reading, 4_096))
            if announced == 0:
                return False
            began = began if seen else time.monotonic()
            seen += announced
        if seen > 1:
            self._mean = (time.monotonic() - began) / (seen - 1)
        return True

    def _consume(self, life: int, writing: int) -> None:
        code = 1
        try:
            consumer = CONSUMERS[self._name](self._folder, f"{self._seed}/{life}")
            consumer.consume(lambda: os.write(writing, b"."))
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is must not run on into the parent's code
            traceback.print_exc()
        finally:
            os._exit(code)


if __name__ == "__main__":
    _, name, folder, seed, deliveries = sys.argv
    Killer(name, Path(folder), int(seed), int(deliveries)).run()
