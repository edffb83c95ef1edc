"""What a consumer declares on RabbitMQ: its queue, and the exchange and bindings by which messages get there. Pure."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

from msgspec import Struct

from dupeproof.errors import ConfigError

QueueType = Literal["quorum", "classic"]
ExchangeType = Literal["topic", "direct", "fanout", "headers"]
_NO_LIMIT = 2_000_000_000
"""Returns to its queue that a message survives. RabbitMQ 4 drops it after 20, also when nobody has tried it."""


class Topology(Struct, frozen=True):
    create: bool
    queue_type: QueueType = "quorum"
    exchange: str | None = None
    exchange_type: ExchangeType = "topic"
    bindings: tuple[str, ...] = ()

    @property
    def queue_arguments(self) -> dict[str, Any]:
        if self.queue_type == "classic":
            return {}
        return {"x-queue-type": self.queue_type, "x-delivery-limit": _NO_LIMIT}


def make_topology(
    create: bool,
    queue_type: object,
    exchange: str | None,
    exchange_type: object,
    bindings: str | Iterable[str],
) -> Topology:
    for name, value, known in (
        ("queue_type", queue_type, get_args(QueueType)),
        ("exchange_type", exchange_type, get_args(ExchangeType)),
    ):
        if value not in known:
            raise ConfigError(f"{name} must be one of {', '.join(known)}; got {value!r:.40}")
    keys = (bindings,) if isinstance(bindings, str) else tuple(bindings)
    if (exchange is not None or keys) and not create:
        raise ConfigError("exchange= and bindings= are declared with create=True; without it, leave them out")
    if keys and not exchange:
        raise ConfigError("bindings= needs exchange=, the exchange that the queue is bound to")
    if exchange is not None and not keys:
        if exchange_type != "fanout":
            raise ConfigError(
                f"exchange={exchange!r:.60} needs bindings=, the routing keys whose messages the queue gets, such as ['orders.*']"
            )
        keys = ("",)
    return Topology(create, queue_type, exchange, exchange_type, keys)  # type: ignore[arg-type]
