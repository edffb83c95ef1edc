"""What has no canonical form is refused, with the path to it and never the value."""

import dataclasses
from decimal import Decimal

import pytest

from dupeproof.errors import KeyInvalid
from dupeproof.keys import canonical


@dataclasses.dataclass
class Line:
    price: object


SECRET = "s3cr3t"


class Opaque:
    def __repr__(self):
        return SECRET


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Opaque(), "payload is"),
        ({"items": [1, 2, {"price": Opaque()}]}, "payload.items[2].price is"),
        ([[Opaque()]], "payload[0][0] is"),
        ({"line": Line(Opaque())}, "payload.line.price is"),
        ({"a": {1: Opaque()}}, "payload.a[…] is"),
        ({"a": {Opaque()}}, "payload.a[…] is"),
        ({SECRET + " is no name": Opaque()}, "payload[…] is"),
        ({"é": {"b": Opaque()}}, "payload[…].b is"),
        ({Opaque(): 1}, "payload[…] is"),
        ({"a": float("nan")}, "payload.a is"),
        ({"a": [float("-inf")]}, "payload.a[0] is"),
        ({"a": Decimal("NaN")}, "payload.a is"),
        ({"a": Decimal("sNaN")}, "payload.a is"),
        ({"a": Decimal("Infinity")}, "payload.a is"),
        ({"a": "x\ud800" + SECRET}, "payload.a is"),
        ({"a\udfff": 1}, "payload[…] is"),
        ({"a\udfff": 1, "b": 2}, "payload[…] is"),
    ],
)
def test_the_error_names_the_path_and_not_the_value(value, path):
    with pytest.raises(KeyInvalid) as caught:
        canonical(value)
    assert str(caught.value).startswith(path)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "value",
    [object(), Opaque, int, Line, canonical, (n for n in ()), range(3), iter([]), 1j, Ellipsis, {}.keys()],
)
def test_what_is_not_data_is_refused_by_type(value):
    with pytest.raises(KeyInvalid, match=f"of type .*{type(value).__qualname__}, .*convert it first"):
        canonical({"a": value})


def _cyclic_list():
    value = []
    value.append(value)
    return value


def _cyclic_dict():
    value = {}
    value["a"] = value
    return value


def _cyclic_object():
    value = Line(None)
    value.price = value
    return value


def _deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("make", [_cyclic_list, _cyclic_dict, _cyclic_object, lambda: _deep(50_000)])
def test_cycles_and_bottomless_nesting_are_refused(make):
    with pytest.raises(KeyInvalid, match="deeper than 100 levels, or contains itself") as caught:
        canonical(make())
    assert len(str(caught.value)) < 300


def test_nesting_up_to_the_limit_is_fine():
    assert canonical(_deep(100)) == b"[" * 100 + b"1" + b"]" * 100


def test_the_caller_may_name_the_value_in_errors():
    with pytest.raises(KeyInvalid, match=r"^context\.a is"):
        canonical({"a": object()}, name="context")
