"""What a handler asks for by its signature, and the trace that leads to it."""

import dataclasses
import functools
import logging
from typing import Any

import msgspec
import pydantic
import pytest
from brokers_places import MemoryPlace, message, new_queue

from dupeproof import AsyncOnce, Inbox, Once
from dupeproof.brokers.base import Message
from dupeproof.brokers.memory import consumer
from dupeproof.errors import ConfigError


class Order(msgspec.Struct):
    number: int
    lines: list[str] = []


class Invoice(pydantic.BaseModel):
    number: int
    to: str = "nobody"


@dataclasses.dataclass
class Parcel:
    number: int


@pytest.fixture
def place():
    return MemoryPlace()


@pytest.fixture
def given(place, run, until):
    """Consume one message with a handler; what it was called with is up to the handler."""

    def consume(make, payload: bytes, seen: list, *, is_async: bool = False) -> Any:
        queue = new_queue()
        place.declare(queue)
        place.publish(message(queue, "m-1", payload))
        once = (AsyncOnce if is_async else Once)("memory://", namespace=queue)
        running = run(place.consumer(queue, make, once=once))
        until(lambda: running.tally.done + running.tally.dead == 1 or running.ended, lambda: running.error)
        running.stop()
        return running.tally

    return consume


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Order, Order(7)),
        (Invoice, Invoice(number=7)),
        (Parcel, Parcel(7)),
        (dict, {"number": 7}),
        (dict[str, int], {"number": 7}),
        (str, '{"number": 7}'),
        (bytes, b'{"number": 7}'),
    ],
)
def test_a_payload_is_read_as_the_type_that_the_handler_asks_for(given, kind, expected):
    seen: list = []

    def handle(payload):
        seen.append(payload)

    handle.__annotations__["payload"] = kind
    given(handle, b'{"number": 7}', seen)
    assert seen == [expected]


def test_so_does_an_async_handler(given):
    seen: list = []

    async def handle(order: Order):
        seen.append(order)

    given(handle, b'{"number": 7}', seen, is_async=True)
    assert seen == [Order(7)]


def test_a_handler_may_have_payload_and_message(given):
    seen: list = []

    def handle(order: Order, message: Message):
        seen.append((order.number, message.id))

    given(handle, b'{"number": 7}', seen)
    assert seen == [(7, "m-1")]


def test_an_annotation_in_quotes_is_understood(given):
    seen: list = []

    def handle(order: "Order"):
        seen.append(order)

    given(handle, b'{"number": 7}', seen)
    assert seen == [Order(7)]


@pytest.mark.parametrize("annotation", [None, Any, object, Message, "Message", Message | None])
def test_what_asks_for_nothing_else_gets_the_message(given, annotation):
    seen: list = []

    def handle(it):
        seen.append(it)

    if annotation is not None:
        handle.__annotations__["it"] = annotation
    given(handle, b'{"number": 7}', seen)
    assert seen[0].id == "m-1"


def test_methods_partials_and_callable_objects_are_read_too(given):
    seen: list = []

    class Shop:
        def handle(self, order: Order):
            seen.append(order)

        def __call__(self, order: Order):
            seen.append(order)

    def with_more(more, order: Order):
        seen.append(order)

    for handler in (Shop().handle, Shop(), functools.partial(with_more, 1)):
        given(handler, b'{"number": 7}', seen)
    assert seen == [Order(7)] * 3


@pytest.mark.parametrize("kind", [Order, Invoice])
def test_a_payload_that_does_not_fit_is_dead_lettered_at_once_and_not_shown(given, kind, caplog, place):
    def handle(payload):
        raise AssertionError("never called")

    handle.__annotations__["payload"] = kind
    with caplog.at_level(logging.WARNING):
        tally = given(handle, b'{"number": "s3cret"}', [])
    assert (tally.dead, tally.retried) == (1, 0)
    assert f"the payload is no {kind.__qualname__}" in caplog.text
    assert "number" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_type_that_no_message_can_be_is_refused_when_the_consumer_is_made():
    class Socket:
        pass

    def handle(it: Socket):
        pass

    with pytest.raises(ConfigError, match=r"annotated .*Socket, which no message can be read as"):
        consumer("memory://any", "q", handle, once=Once("memory://"))


def test_an_annotation_that_only_type_checkers_know_is_refused_with_what_to_do():
    def handle(it):
        pass

    handle.__annotations__["it"] = "NotKnownHere"
    with pytest.raises(ConfigError, match="outside of `if TYPE_CHECKING`"):
        consumer("memory://any", "q", handle, once=Once("memory://"))


def test_an_unknown_annotation_of_another_parameter_does_no_harm(given):
    seen: list = []

    def handle(order: "Order", message=None, other: "NotKnownHere" = None):  # noqa: F821
        seen.append((order, message.id))

    given(handle, b'{"number": 7}', seen)
    assert seen == [(Order(7), "m-1")]


def test_the_message_of_the_outbox_is_not_taken_for_a_payload():
    from dupeproof.outbox import Message as Outgoing

    def handle(message: Outgoing):
        pass

    with pytest.raises(ConfigError, match="the Message of the outbox"):
        consumer("memory://any", "q", handle, once=Once("memory://"))


def test_any_number_of_arguments_is_no_batch(given):
    seen: list = []

    def handle(*messages):
        seen.extend(messages)

    given(handle, b"{}", seen)
    assert [each.id for each in seen] == ["m-1"]


def test_a_handler_of_batches_needs_an_inbox():
    def handle(messages):
        pass

    with pytest.raises(ConfigError, match="a handler of batches needs inbox="):
        consumer("memory://any", "q", handle, once=Once("memory://"))


def test_a_handler_of_batches_may_ask_for_types(place, run, until, tmp_path):
    import sqlite3

    queue, seen = new_queue(), []
    with sqlite3.connect(tmp_path / "inbox.db") as connection:
        Inbox("any").create_schema(connection)
    place.declare(queue)
    place.publish(*(message(queue, f"m-{n}", b'{"number": %d}' % n) for n in range(3)))

    def handle(messages: list[Order], connection):
        seen.extend(messages)

    running = run(
        place.consumer(queue, handle, inbox=Inbox(queue, database=f"sqlite:///{tmp_path}/inbox.db"))
    )
    until(lambda: running.tally.done == 3 or running.ended, lambda: running.error)
    running.stop()
    assert seen == [Order(0), Order(1), Order(2)]
