# No twin: aio-pika reads and writes all of this by itself.
"""Headers of any type through pika, which makes whole numbers of fractions when it reads and refuses them when it writes.

pamqp, by which aio-pika reads and writes, knows all types of AMQP. So both drivers see and send the same.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pamqp.frame

from dupeproof.brokers.rabbitmq.driver import pika
from dupeproof.brokers.rabbitmq.properties import Properties

_SAME = set(Properties.flags) - {"message_type", "timestamp", "headers", "cluster_id"}


class Connection(pika.SelectConnection):  # type: ignore[misc]
    """Reads headers anew in which there may be a fraction."""

    def _read_frame(self) -> tuple[int, Any]:
        size, found = super()._read_frame()
        if isinstance(found, pika.frame.Header) and _may_have_been_fractions(found.properties.headers):
            _, _, header = pamqp.frame.unmarshal(bytes(self._frame_buffer[:size]))
            found.properties.headers = header.properties.headers  # type: ignore[union-attr]
        return size, found


def _may_have_been_fractions(value: Any) -> bool:
    """For pika they are long numbers, as those that really are."""
    if isinstance(value, pika.compat.long):
        return True
    inner: Iterable[Any] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    return any(map(_may_have_been_fractions, inner))


class Copied(pika.BasicProperties):  # type: ignore[misc]
    """Written as those of the other driver."""

    def encode(self) -> list[bytes]:
        stamp = self.timestamp
        return [
            Properties(
                message_type=self.type,
                timestamp=datetime.fromtimestamp(stamp, UTC) if isinstance(stamp, int) else stamp,
                headers=self.headers,
                **{name: getattr(self, name) for name in _SAME},
            ).marshal()
        ]
