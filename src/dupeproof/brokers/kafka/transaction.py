"""A transaction of Kafka: output and positions are written together, or not at all."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from dupeproof.brokers.base import Delivery
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.kafka.driver import (
    LOGGER,
    TIMEOUT,
    Config,
    complaining,
    fatal_as_such,
    kafka,
    of_its_batch,
    refusal,
)
from dupeproof.brokers.kafka.producer import produce, producing
from dupeproof.brokers.kafka.wire import Output, Receipt

Done = tuple[Delivery, Sequence[Output]]
"""A message, and what is to be written for it."""
FENCES = (
    kafka.KafkaError._FENCED,  # noqa: SLF001 - so it is called by its library
    kafka.KafkaError.PRODUCER_FENCED,
    kafka.KafkaError.INVALID_PRODUCER_EPOCH,
)
_SLICE = 1.0
"""Seconds that the library is asked to wait at a time: it goes on where it was, and signals are heard in between."""
_AGAIN = 0.2
_INFO = 6
"""As the library numbers levels."""


class Aborted(Exception):
    """Nothing was written, and no message is to blame. To be tried again after so many seconds."""

    def __init__(self, text: str, wait: float = _AGAIN) -> None:
        super().__init__(text)
        self.wait = wait


class Refused(Exception):
    """Nothing was written, because Kafka does not take what was made of one of the messages."""

    def __init__(self, number: int, fault: NotPublished) -> None:
        super().__init__(str(fault))
        self.number = number
        self.fault = fault


class _Ghosts:
    """Stands where the library wants a logger, because its log is the only place that shows every connection lost with requests
    on their way, and of every request that was not answered in time.
    """

    def __init__(self) -> None:
        self.seen = False

    def log(self, level: int, text: str, *args: Any) -> None:
        LOGGER.log(level, text, *args)
        shown = text % args
        self.seen |= shown.startswith("REQTMOUT") or (shown.startswith("FAIL") and "in state UP" in shown)


class Transaction:
    """One at a time, of one transactional id. Belongs to one thread.

    What ends with `Aborted` or `Refused` is known not to be written. After any other error, nobody knows before `open`.

    A request that was given up and sent again may still arrive. Within an epoch, Kafka would take it for a part of whatever
    transaction is open by then: old positions would take back new ones, an old commit would commit the half of a new one. Where
    there may be such a request, `is_haunted`, and the next transaction needs a new epoch, by another `open`.
    """

    def __init__(self, config: Config, ident: str, timeout: float) -> None:
        self._config = {
            **config,
            "log_level": max(_INFO, int(config.get("log_level", _INFO))),
            "log.connection.close": True,
        }
        self._terms = {
            "transactional.id": ident,
            "transaction.timeout.ms": round(timeout * 1_000),
            "error_cb": self._failed,
        }
        self._timeout = timeout
        self._complain = complaining(config)
        self._producer: Any = None
        self._began = 0.0
        self._singly = False
        self._refusals: list[tuple[int, Any, str]] = []
        self._fatal: Any = None
        self._ghosts = _Ghosts()

    def open(self, left: Callable[[], float]) -> None:
        """Ends what was left open under this id, by whomever, and fences him."""
        self._fatal = None
        self._ghosts = _Ghosts()
        self._producer = producing(
            self._config, min(TIMEOUT, self._timeout), logger=self._ghosts, **self._terms
        )
        self._began = time.monotonic()
        self._insist(self._producer.init_transactions, left)

    def close(self) -> None:
        self._producer = None

    @property
    def is_haunted(self) -> bool:
        """Whether a request of this epoch may be under way that nobody waits for."""
        with fatal_as_such():
            self._producer.poll(0)  # which logs lost connections
        return self._ghosts.seen

    @property
    def may_be_over(self) -> bool:
        """Whether Kafka may have aborted the last one for its time. Half of it, since clocks differ."""
        return time.monotonic() - self._began > self._timeout / 2

    def write(self, batch: Sequence[Done], membership: Callable[[], Any], left: Callable[[], float]) -> None:
        """`membership` is asked for when all output is written: older than that, it would let one commit who has lost his
        partitions meanwhile. `left` are the seconds that it may take.
        """
        self._refusals.clear()
        self._began = time.monotonic()
        try:
            self._producer.begin_transaction()
            try:
                self._write(batch, left)
                self._send_positions(batch, membership, left)
            except kafka.KafkaException as exc:
                if not exc.args[0].txn_requires_abort():
                    raise
                self._insist(self._producer.abort_transaction, left)
                raise Aborted(exc.args[0].str()) from exc
            except (Aborted, Refused):
                self._insist(self._producer.abort_transaction, left)
                raise
            self._insist(self._producer.commit_transaction, left)
        except kafka.KafkaException as exc:
            raise (exc if self._fatal is None else kafka.KafkaException(self._fatal)) from exc
        self._singly = False

    def _write(self, batch: Sequence[Done], left: Callable[[], float]) -> None:
        for number, (_, outputs) in enumerate(batch):
            for out in outputs:
                try:
                    produce(self._producer, out.topic, out.record, self._told(number, out.topic), _SLICE)
                except kafka.KafkaException as exc:
                    if exc.args[0].fatal() or self._fatal is not None:
                        raise
                    self._see_refusals(batch)
                    fault = refusal(exc.args[0], out.topic)
                    # Without one: something written before has failed, and the library takes no more.
                    raise (Aborted(exc.args[0].str()) if fault is None else Refused(number, fault)) from exc
                if self._singly:
                    self._flush(left)
                    self._see_refusals(batch)
        self._flush(left)
        self._see_refusals(batch)

    def _see_refusals(self, batch: Sequence[Done]) -> None:
        """A broker refuses a whole batch, for its size or for one message in it, and the library makes them. So what is refused
        beside others is written again with fewer, at last alone, before it is blamed.
        """
        if not self._refusals:
            return
        number, error, topic = min(self._refusals, key=lambda each: each[0])
        if of_its_batch(error) and not self._singly:
            self._singly = len(batch) == 1
            if len(batch) > 1 or len(batch[0][1]) > 1:
                raise Aborted(f"Kafka refused output together: {error.str()[:200]}", wait=0.0)
        fault = refusal(error, topic)
        raise (Aborted(error.str()) if fault is None else Refused(number, fault))

    def _send_positions(
        self, batch: Sequence[Done], membership: Callable[[], Any], left: Callable[[], float]
    ) -> None:
        receipts: list[Receipt] = [each.receipt for each, _ in batch]
        ends = {receipt.place: receipt.offset + 1 for receipt in receipts}
        shown = membership()
        if shown is None:
            raise Aborted("this consumer is no longer in its group")
        offsets = [kafka.TopicPartition(*place, end) for place, end in ends.items()]
        self._insist(
            lambda seconds: self._producer.send_offsets_to_transaction(offsets, shown, seconds), left
        )

    def _insist(self, ask: Callable[[float], None], left: Callable[[], float]) -> None:
        """Until the answer is there, for as long as `TIMEOUT`: then other clients have to find out what became of it."""
        give_up = time.monotonic() + TIMEOUT
        while True:
            seconds = left()
            try:
                with fatal_as_such():
                    ask(min(_SLICE, seconds))
            except kafka.KafkaException as exc:
                self._ghosts.seen = True
                if not exc.args[0].retriable() or time.monotonic() > give_up or seconds < _SLICE / 2:
                    raise
            else:
                return

    def _flush(self, left: Callable[[], float]) -> None:
        """Until Kafka has answered, or the library has given up on it."""
        with fatal_as_such():
            while self._producer.flush(min(_SLICE, left())) > 0:
                if left() < _SLICE / 2:
                    return

    def _told(self, number: int, topic: str) -> Any:
        def answer(error: Any, _: Any) -> None:
            if error is not None and (of_its_batch(error) or refusal(error, topic) is not None):
                self._refusals.append((number, error, topic))

        return answer

    def _failed(self, error: Any) -> None:
        """The library says only once what broke it."""
        if error.fatal():
            self._fatal = error
        else:
            self._complain(error)
