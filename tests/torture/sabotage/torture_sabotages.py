"""Faults of a library, put into it from outside: each breaks one promise, on the side of threads and on that of tasks."""

from importlib import import_module

from dupeproof import AsyncInbox, Inbox
from dupeproof.brokers.base import Ack, Retry
from dupeproof.brokers.errors import not_now
from dupeproof.brokers.work import InTransaction
from dupeproof.brokers.work_async import AsyncInTransaction
from dupeproof.brokers.worker_queues import WorkerQueues
from dupeproof.inbox import Arrival
from dupeproof_lab.torture.pipes import PipeSource

_FENCE = " AND owner = :owner"


def lose_retries():
    """A message that fails is acknowledged, and nothing is put where it would come again from."""

    def lost(decided):
        return [
            (delivery, Ack() if isinstance(verdict, Retry) and verdict.counted else verdict)
            for delivery, verdict in decided
        ]

    sync, tasks = _sources("rabbitmq", "Rabbit")
    settle, settle_async = sync.acknowledge, tasks.acknowledge
    sync.acknowledge = lambda self, decided: settle(self, lost(decided))

    async def later(self, decided):
        await settle_async(self, lost(decided))

    tasks.acknowledge = later


def ignore_order():
    """Messages of one key are worked on beside each other."""
    add = WorkerQueues.add

    def anywhere(self, deliveries):
        deliveries = list(deliveries)
        for each in deliveries:
            each.partition_key = None
        add(self, deliveries)

    WorkerQueues.add = anywhere


def remove_the_fence():
    """Who lost a partition of Kafka records its position, and commits, all the same."""
    for stem in ("positions", "positions_async"):
        module = import_module(f"dupeproof.brokers.kafka.{stem}")
        assert _FENCE in module._RECORD
        for name, value in vars(module).copy().items():
            if isinstance(value, str):
                setattr(module, name, value.replace(_FENCE, ""))


def drop_while_the_database_is_down():
    """What could not be done because there was no database is acknowledged."""
    do, do_async = InTransaction.do, AsyncInTransaction.do

    def dropping(self, chunk):
        try:
            return do(self, chunk)
        except Exception as exc:
            if not not_now(exc):
                raise
            return [Ack() for _ in chunk]

    async def dropping_async(self, chunk):
        try:
            return await do_async(self, chunk)
        except Exception as exc:
            if not not_now(exc):
                raise
            return [Ack() for _ in chunk]

    InTransaction.do, AsyncInTransaction.do = dropping, dropping_async


def acknowledge_before_the_commit():
    """The broker is told as soon as a message is there."""
    poll = PipeSource.poll

    def told(self, most, seconds):
        fetched = poll(self, most, seconds)
        self.acknowledge([(each, Ack()) for each in fetched])
        return fetched

    PipeSource.poll = told


def mark_apart():
    """The mark is committed in a transaction of its own, before the effect."""

    def do(self, chunk):
        with self._inbox.transaction() as connection:
            arrivals = self._arrivals(connection, chunk)
        with self._inbox.transaction() as connection:
            return [
                self._one(connection, each, arrival) for each, arrival in zip(chunk, arrivals, strict=True)
            ]

    InTransaction.do = do


def skip_the_check():
    """Every message is the first."""
    arrivals, arrivals_async = Inbox.arrivals, AsyncInbox.arrivals
    Inbox.arrivals = lambda *args: [Arrival.FIRST for _ in arrivals(*args)]

    async def first(*args):
        return [Arrival.FIRST for _ in await arrivals_async(*args)]

    AsyncInbox.arrivals = first


def drop_what_comes_again():
    """What the broker delivers a second time is acknowledged, and not worked on."""

    def parted(fetched):
        again = [(each, Ack()) for each in fetched if each.message.redelivered]
        return again, [each for each in fetched if not each.message.redelivered]

    sync, tasks = _sources("rabbitmq", "Rabbit")
    poll, poll_async = sync.poll, tasks.poll

    def dropping(self, most, seconds):
        again, others = parted(poll(self, most, seconds))
        if again:
            self.acknowledge(again)
        return others

    async def dropping_async(self, most, seconds):
        again, others = parted(await poll_async(self, most, seconds))
        if again:
            await self.acknowledge(again)
        return others

    sync.poll, tasks.poll = dropping, dropping_async


def _sources(broker, name):
    return (
        getattr(import_module(f"dupeproof.brokers.{broker}.source"), f"{name}Source"),
        getattr(import_module(f"dupeproof.brokers.{broker}.source_async"), f"Async{name}Source"),
    )


SABOTAGES = {
    function.__name__: function
    for function in (
        lose_retries,
        ignore_order,
        remove_the_fence,
        drop_while_the_database_is_down,
        acknowledge_before_the_commit,
        mark_apart,
        skip_the_check,
        drop_what_comes_again,
    )
}
