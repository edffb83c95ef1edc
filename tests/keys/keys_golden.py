"""The payloads behind golden.json. Run as a program it prints what this interpreter makes of them."""

import dataclasses
import enum
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import msgspec

from dupeproof.keys import canonical, content_id, fingerprint


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


class Order(msgspec.Struct):
    id: str
    lines: list[Line]


PAYLOADS = {
    "empty object": {},
    "order": {"order_id": "o-1", "amount": 500, "currency": "EUR"},
    "order, other insertion order": {"currency": "EUR", "amount": 500, "order_id": "o-1"},
    "call": {"args": ["o-1", 500], "kwargs": {}},
    "json scalars": [None, True, False, 0, -1, 1.5, -0.0, 1e21, 1e-7, "", 'a/b\n\x1f"\\'],
    "names beyond the basic plane": {"\U0001f600": 1, "\ufb33": 2, "ö": 3, "z": 4},
    "nested": {"b": [{"d": [[]], "c": {}}], "a": ()},
    "big whole numbers": [2**53, 2**53 + 1, -(2**63), 1234567890123456789],
    "decimals": [Decimal("1.50"), Decimal("-0.00"), Decimal("1E+3"), Decimal("12345678901234567890.123")],
    "times": [
        datetime(2024, 5, 1, 12, 30, 0, 5, tzinfo=timezone(timedelta(hours=2))),
        datetime(2024, 5, 1, 10, 30, 0, 5, tzinfo=UTC),
        datetime(2024, 5, 1, 10, 30),
        date(2024, 5, 1),
        time(10, 30),
        timedelta(minutes=5),
    ],
    "identifiers": [UUID("12345678-1234-5678-1234-567812345678"), b"\x00\xff"],
    "enums": [Color.RED, Level.HIGH],
    "objects": Order("o-1", [Line("s", Decimal(2))]),
    "sets": {"tags": {"b", "a", "c"}, "numbers": frozenset({10, 9})},
    "map": {1: "one", "1": "text", (2, "x"): None},
}
CONTEXTS = {
    "none": (None, None),
    "namespace": (None, "billing"),
    "context": ({"user": 7, "day": date(2024, 5, 1)}, None),
    "both": ({"user": 7, "day": date(2024, 5, 1)}, "billing"),
}


def actual():
    vectors = {
        name: {
            "canonical": canonical(payload).decode(),
            "id": content_id(payload),
            "fingerprint": fingerprint(payload),
        }
        for name, payload in PAYLOADS.items()
    }
    ids = {
        name: content_id(PAYLOADS["order"], context=context, namespace=namespace)
        for name, (context, namespace) in CONTEXTS.items()
    }
    return {"payloads": vectors, "order in contexts": ids}


if __name__ == "__main__":
    print(json.dumps(actual(), indent=2, ensure_ascii=False))
