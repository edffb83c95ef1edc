"""The inbox as a middleware for FastStream: mark and effect in one transaction, whose connection the handler may ask for.

    broker = RabbitBroker("amqp://…", middlewares=[InboxMiddleware(inbox)])

    @broker.subscriber("orders", ack_policy=AckPolicy.NACK_ON_ERROR)
    async def handle(order: Order, connection=Context()): ...

The transaction is committed before FastStream acknowledges. A duplicate is acknowledged, and the handler not called. What
a handler publishes by its return value goes out after the commit, and is lost by a crash in between: use an outbox.
"""

from collections.abc import Callable
from typing import Any

from dupeproof.core.callables import is_async
from dupeproof.core.events import logger
from dupeproof.errors import ConfigError
from dupeproof.inbox import AsyncInbox
from dupeproof.keys.canonical import canonical
from dupeproof.keys.ids import content_id
from dupeproof.keys.message_ids import Missing, from_amqp, from_headers, from_others
from dupeproof.keys.names import check_key

try:
    from faststream import AckPolicy, BaseMiddleware
    from faststream.exceptions import AckMessage
    from faststream.message import StreamMessage
except ModuleNotFoundError as exc:
    raise ConfigError(
        'dupeproof.brokers.faststream needs FastStream; run: pip install "dupeproof[faststream]"'
    ) from exc

__all__ = ["InboxMiddleware"]
_HEADERS = ("dupeproof-id", "message-id", "Nats-Msg-Id", "message_id")
"""Where an id may be on brokers without a place for it; a relay of ours writes the first three."""
_UNSAFE = {
    AckPolicy.ACK_FIRST: "acknowledges messages before they are worked on: they are lost when its process dies",
    AckPolicy.ACK: "acknowledges messages whose work has failed: they are lost",
    AckPolicy.REJECT_ON_ERROR: "rejects messages whose work has failed: they are lost, unless the broker dead-letters them",
}
IdOf = Callable[[StreamMessage[Any]], str | None]


class InboxMiddleware:
    """Give it to a broker or router of FastStream. The inbox needs `database=`. Each subscriber has marks of its own, by where it
    reads from.

    The id is the `message_id` of AMQP, or a header: `dupeproof-id`, `message-id`, `Nats-Msg-Id`, `message_id`; without these, that of
    a CloudEvent or a task of Celery. FastStream's
    own `message.message_id` is not used: it is a random one where the sender gave none, and on Kafka a position. A publisher of
    FastStream makes a new one at every try; then `id_of=lambda message: …` reads yours.
    `missing_id` is what to do without one: "raise" `KeyMissing`, use the id of the "content", or "pass" it on unguarded.
    """

    def __init__(
        self, inbox: AsyncInbox, *, id_of: IdOf | None = None, missing_id: Missing = "raise"
    ) -> None:
        if not is_async(getattr(inbox, "first", None)):
            raise ConfigError("FastStream's handlers are async; give InboxMiddleware an AsyncInbox")
        if missing_id not in ("raise", "content", "pass"):
            raise ConfigError(f"missing_id must be 'raise', 'content' or 'pass'; got {missing_id!r:.40}")
        inbox.transaction()  # whether it has a database
        self.inbox = inbox
        self._id_of = id_of
        self._missing = missing_id
        self._warned: set[int] = set()

    def __call__(self, msg: Any, /, *, context: Any) -> "_InInbox":
        return _InInbox(self, msg, context=context)

    def identify(self, message: StreamMessage[Any]) -> str | None:
        if isinstance(message.raw_message, list | tuple):
            raise ConfigError(
                "a subscriber with batch=True has many ids and one acknowledgement; use batch=False, or dupeproof's own consumers"
            )
        if self._id_of is not None:
            found = self._id_of(message)
            return None if found is None else check_key(found)
        return _found(message, self._missing)

    def check(self, subscriber: Any) -> None:
        """Say once when a subscriber acknowledges what may not be done."""
        policy = getattr(subscriber, "ack_policy", None)
        if policy in _UNSAFE and id(subscriber) not in self._warned:
            self._warned.add(id(subscriber))
            logger.error(
                "A subscriber of FastStream has the ack policy %s, which %s. Choose ack_policy=AckPolicy.NACK_ON_ERROR",
                policy.name,
                _UNSAFE[policy],
            )


class _InInbox(BaseMiddleware):
    """One message on its way through."""

    def __init__(self, options: InboxMiddleware, msg: Any, /, *, context: Any) -> None:
        super().__init__(msg, context=context)
        self._options = options

    async def consume_scope(self, call_next: Any, msg: StreamMessage[Any]) -> Any:
        options, inbox = self._options, self._options.inbox
        subscriber = self.context.get_local("handler_")
        options.check(subscriber)
        ident = options.identify(msg)
        if ident is not None:
            ident = canonical([_place(subscriber), ident]).decode()
        result: Any = None
        said_done: AckMessage | None = None
        async with inbox.transaction() as connection:
            if ident is not None and not await inbox.first(connection, ident):
                said_done = (
                    AckMessage()
                )  # and not a plain return, which FastStream would publish as an answer
            else:
                with self.context.scope("connection", connection):
                    try:
                        result = await call_next(msg)
                    except AckMessage as exc:  # a handler that is done: its work is to be committed
                        said_done = exc
                await inbox.confirm(connection, [] if ident is None else [ident])
        if said_done is not None:
            raise said_done
        return result


def _place(subscriber: Any) -> dict[str, str]:
    """Where it reads from: an event that goes to two queues is one for each of their subscribers."""
    known = subscriber.get_log_context(None)
    return {name: str(value) for name, value in known.items() if name != "message_id"}


def _found(message: StreamMessage[Any], missing: Missing) -> str | None:
    raw: Any = message.raw_message
    if hasattr(raw, "routing_key"):
        found = from_amqp(raw, header=_HEADERS[0], missing="pass")
        theirs = raw.headers
    else:
        names = iter(_HEADERS)
        found = next(
            (each for name in names if (each := from_headers(message.headers, name, missing="pass"))), None
        )
        theirs = message.headers
    if found is None:
        found = from_others(theirs, message.content_type, message.body)
    if found is not None or missing == "pass":
        return found
    if missing == "content":
        return content_id(message.body)
    return from_headers(None, " or ".join(_HEADERS))
