"""The three consumers side by side, each with its own queue and ledger, filled from the same orders."""

import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from dupeproof_lab.demo.consumers import CONSUMERS, LEDGER, QUEUE
from dupeproof_lab.demo.ledger import Audit, Ledger
from dupeproof_lab.demo.queue import Message, Queue, make_messages, order_name

_KILLS_WANTED = 60
_SHORTEST_LIFE = 4
_LOOK_SECONDS = 0.1


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of the orders in the hands of one consumer."""

    name: str
    title: str
    idea: str
    orders: int
    messages: int
    deliveries: int
    kills: int
    seconds: float
    audit: Audit


class Pipeline:
    """One consumer: its files, the process that runs and kills it, and how far it is."""

    def __init__(self, name: str, folder: Path, messages: list[Message], seed: int) -> None:
        self.name = name
        self.kills = 0
        self.seconds = 0.0
        self._folder = folder / name
        self._folder.mkdir()
        self.queue = Queue(self._folder / QUEUE)
        self.queue.send(messages)
        deliveries = max(_SHORTEST_LIFE, len(messages) // _KILLS_WANTED)
        command = [sys.executable, "-m", "dupeproof_lab.demo.kills", name, str(self._folder)]
        self._began = time.monotonic()
        # A session of its own: an interrupt is for us, and the end of its input tells the process to stop.
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [*command, str(seed), str(deliveries)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def read(self) -> bool:
        """Count the kills told of since; False when the process has ended."""
        assert self.process.stdout is not None
        told = len(self.process.stdout.read1(4_096))  # type: ignore[attr-defined]
        self.kills += told
        self.seconds = time.monotonic() - self._began
        return told > 0

    def outcome(self, order_ids: list[str]) -> Outcome:
        if self.process.wait() != 0:
            raise RuntimeError(f"the {self.name} consumer did not come to its end")
        ledger = Ledger(self._folder / LEDGER)
        audit = ledger.audit(order_ids)
        ledger.close()
        progress = self.queue.progress()
        kind = CONSUMERS[self.name]
        return Outcome(
            name=self.name,
            title=kind.title,
            idea=kind.idea,
            orders=len(order_ids),
            messages=progress.messages,
            deliveries=progress.deliveries,
            kills=self.kills,
            seconds=self.seconds,
            audit=audit,
        )

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.queue.close()


def run_all(folder: Path, *, orders: int, seed: int, progress: Callable[[Pipeline], object]) -> list[Outcome]:
    """Run the consumers at the same time, telling of each how far it is every now and then."""
    messages = make_messages(orders, seed)
    pipelines: list[Pipeline] = []
    try:
        pipelines.extend(Pipeline(name, folder, messages, seed) for name in CONSUMERS)
        with selectors.DefaultSelector() as selector:
            for pipeline in pipelines:
                assert pipeline.process.stdout is not None
                selector.register(pipeline.process.stdout, selectors.EVENT_READ, pipeline)
            while selector.get_map():
                for key, _ in selector.select(_LOOK_SECONDS):
                    if not key.data.read():
                        selector.unregister(key.fileobj)
                for pipeline in pipelines:
                    progress(pipeline)
        order_ids = [order_name(number) for number in range(orders)]
        return [pipeline.outcome(order_ids) for pipeline in pipelines]
    finally:
        for pipeline in pipelines:
            pipeline.close()
