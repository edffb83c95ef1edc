"""The properties of a copy on the wire: every header in its type, as AMQP has them. Pure.

pamqp, by which aio-pika writes, makes fractions of single precision and refuses bytes; pika refuses fractions.
"""

import struct
from typing import Any

from dupeproof.brokers.rabbitmq.texts import NEEDS
from dupeproof.errors import ConfigError

try:
    import pamqp.commands
    import pamqp.encode
except ModuleNotFoundError as exc:
    raise ConfigError(NEEDS.format(driver="aio-pika")) from exc

_PLACEHOLDER: dict[str, Any] = {"dupeproof-headers": "stand here"}


class Properties(pamqp.commands.Basic.Properties):
    def marshal(self) -> bytes:
        headers, self.headers = self.headers, _PLACEHOLDER
        try:
            written = super().marshal()
        finally:
            self.headers = headers
        return written.replace(pamqp.encode.field_table(_PLACEHOLDER), table(headers or {}), 1)


def table(headers: dict[str, Any]) -> bytes:
    inside = b"".join(pamqp.encode.short_string(name) + _value(value) for name, value in headers.items())
    return struct.pack(">I", len(inside)) + inside


def _value(value: Any) -> bytes:
    match value:
        case float():
            return b"d" + struct.pack(">d", value)
        case bytes() | bytearray():
            return b"x" + struct.pack(">I", len(value)) + value
        case dict():
            return b"F" + table(value)
        case list():
            inside = b"".join(map(_value, value))
            return b"A" + struct.pack(">I", len(inside)) + inside
    return bytes(pamqp.encode.encode_table_value(value))
