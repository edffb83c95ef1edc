"""Three consumers with the same queue, the same handler and the same deaths. They differ in `handle` alone."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from dupeproof import Busy, Held, Once
from dupeproof_lab.demo.ledger import Ledger
from dupeproof_lab.demo.queue import Message, Queue

QUEUE, LEDGER, STORE = "queue.db", "ledger.db", "dupeproof.db"
_LEASE = "300ms"
"""Shorter than a message stays hidden, so that a dead owner's lease is over when its message comes again."""
_STEP_SECONDS = 0.002


class Consumer:
    title: ClassVar[str]
    idea: ClassVar[str]

    def __init__(self, folder: Path, seed: str) -> None:
        self.queue = Queue(folder / QUEUE)
        self.ledger = Ledger(folder / LEDGER)
        # Not forced to disk, for the reason given in `queue.connect`.
        url = f"sqlite:///{folder / STORE}?synchronous=normal"
        self.once = Once(url, namespace="orders", window="1h", lease=_LEASE, on_abandoned="hold")
        self._rng = random.Random(seed)  # noqa: S311 - no secret

    def consume(self, announce: Callable[[], object]) -> None:
        for message in self.queue.deliveries():
            announce()
            self.handle(message)

    def handle(self, message: Message) -> None:
        raise NotImplementedError

    def process(self, order_id: str, cents: int) -> None:
        """The work on an order: something before the charge, the charge, something after it."""
        self._step()
        self.ledger.charge(order_id, cents)
        self._step()

    def _step(self) -> None:
        time.sleep(self._rng.uniform(0, _STEP_SECONDS))


class Naive(Consumer):
    title = "naive"
    idea = "process, then ack"

    def handle(self, message: Message) -> None:
        self.process(message.order_id, message.cents)
        self.queue.ack(message)


class MarkFirst(Consumer):
    title = "mark first"
    idea = "mark as seen, process, then ack"

    def handle(self, message: Message) -> None:
        if not self.once.seen(message.order_id):
            self.process(message.order_id, message.cents)
        self.queue.ack(message)


class Dupeproof(Consumer):
    """Claims the order, works, finishes; and settles what an owner that was killed left in doubt.

    Settling is safe here because one consumer runs at a time and the one before is known to be dead: nobody else
    can be about to charge while the ledger is asked.
    """

    title = "dupeproof"
    idea = "once.run(); in doubt, ask the ledger"

    def handle(self, message: Message) -> None:
        try:
            self._run(message)
        except Held:
            self._settle(message)
        except Busy as busy:
            self.queue.put_back(message, busy.retry_after)
            return
        self.queue.ack(message)

    def _run(self, message: Message) -> None:
        self.once.run(message.order_id, self.process, message.order_id, message.cents)

    def _settle(self, message: Message) -> None:
        if self.ledger.has_charge(message.order_id):
            self.once.resolve(message.order_id)
        else:
            self.once.reopen(message.order_id)
            self._run(message)


CONSUMERS: dict[str, type[Consumer]] = {"naive": Naive, "mark_first": MarkFirst, "dupeproof": Dupeproof}
