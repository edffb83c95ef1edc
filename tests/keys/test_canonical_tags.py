"""Values that JSON does not have: each kind has a form of its own, outside JSON's grammar."""

import dataclasses
import enum
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from uuid import UUID

import msgspec
import pydantic
import pytest
import uuid_utils
from hypothesis import given
from hypothesis import strategies as st
from keys_strategies import json_values, tagged_scalars, values

from dupeproof.errors import KeyInvalid
from dupeproof.keys import canonical


class Color(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Bits(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class Order:
    id: str
    items: list = dataclasses.field(default_factory=list)


class Receipt(msgspec.Struct):
    id: str
    note: str | msgspec.UnsetType = msgspec.UNSET


class Customer(pydantic.BaseModel):
    name: str
    born: date | None = None
    old: int = pydantic.Field(default=0, deprecated=True)


IDENTIFIER = "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53 + 1, '@int"20000000000001"'),
        (-(2**64), '@int"-10000000000000000"'),
        (Decimal("1.50"), '@decimal"15e-1"'),
        (Decimal("-0.0"), '@decimal"0"'),
        (Decimal(1200), '@decimal"12e2"'),
        (Decimal("1e999999"), '@decimal"1e999999"'),
        (datetime(2024, 5, 1, 10, 0), '@datetime"2024-05-01T10:00:00.000000"'),
        (datetime(2024, 5, 1, 10, 0, tzinfo=UTC), '@datetime"2024-05-01T10:00:00.000000Z"'),
        (
            datetime(2024, 5, 1, 12, 0, tzinfo=timezone(timedelta(hours=2))),
            '@datetime"2024-05-01T10:00:00.000000Z"',
        ),
        (date(2024, 5, 1), '@date"2024-05-01"'),
        (time(10, 0), '@time"10:00:00.000000"'),
        (time(10, 0, tzinfo=UTC), '@time"10:00:00.000000+00:00"'),
        (timedelta(days=-1, microseconds=1), '@timedelta"-86399999999us"'),
        (UUID(IDENTIFIER), '@uuid"12345678123456781234567812345678"'),
        (uuid_utils.UUID(IDENTIFIER), '@uuid"12345678123456781234567812345678"'),
        (b"\x00\xff", '@bytes"00ff"'),
        (bytearray(b"\x00\xff"), '@bytes"00ff"'),
        (memoryview(b"\xff\x00")[::-1], '@bytes"00ff"'),
        (Color.RED, '@enum["Color","red"]'),
        (Word.RED, '@enum["Word","red"]'),
        (Level.LOW, '@enum["Level",1]'),
        (Bits.A | Bits.B, '@enum["Bits",3]'),
        (Order("o-1", [1]), '@object["Order",{"id":"o-1","items":[1]}]'),
        (Receipt("r-1"), '@object["Receipt",{"id":"r-1"}]'),
        (Receipt("r-1", "x"), '@object["Receipt",{"id":"r-1","note":"x"}]'),
        (Customer(name="Ann"), '@object["Customer",{"born":null,"name":"Ann","old":0}]'),
        ({3, 1, 2}, "@set[1,2,3]"),
        (frozenset(), "@set[]"),
        ({2: "b", 1: "a"}, '@map[[1,"a"],[2,"b"]]'),
        ({1: "a", "1": "b"}, '@map[["1","b"],[1,"a"]]'),
        ({Word.RED: 1}, '@map[[@enum["Word","red"],1]]'),
        ({None: 1}, "@map[[null,1]]"),
        ({(1, "a"): 1}, '@map[[[1,"a"],1]]'),
    ],
)
def test_each_kind_has_its_form(value, expected):
    assert canonical(value).decode() == expected


@given(tagged_scalars, json_values)
def test_a_tagged_form_never_meets_a_json_form(tagged, plain):
    form = canonical(tagged)
    assert form != canonical(plain)
    with pytest.raises(json.JSONDecodeError):
        json.loads(form)


def test_a_dict_that_looks_like_a_tag_stays_plain_json():
    assert canonical({"@decimal": "1.5"}) == b'{"@decimal":"1.5"}'
    assert canonical('@decimal"15e-1"') == rb'"@decimal\"15e-1\""'


@given(st.integers(2**53, 2**70))
def test_neighbouring_big_ids_never_meet(number):
    assert len({canonical(number + step) for step in range(4)}) == 4


@given(st.decimals(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False, allow_infinity=False))
def test_decimals_are_equal_exactly_when_they_are_numerically(one, other):
    assert (canonical(one) == canonical(other)) == (one == other)


def test_decimals_are_not_rounded_to_the_context():
    with localcontext(prec=3):
        assert canonical(Decimal("1.2345678")) != canonical(Decimal("1.2345679"))


@given(st.datetimes(timezones=st.timezones()), st.timezones())
def test_the_time_zone_an_instant_is_told_in_does_not_matter(moment, zone):
    try:
        elsewhere = moment.astimezone(zone)
        moment.astimezone(UTC)
    except OverflowError:
        return
    assert canonical(elsewhere) == canonical(moment)


def test_an_instant_outside_the_calendar_is_refused():
    with pytest.raises(KeyInvalid, match="years 1 to 9999"):
        canonical(datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))))


def test_nanoseconds_are_refused_rather_than_cut_off():
    class Timestamp(datetime):
        nanosecond = 7

    with pytest.raises(KeyInvalid, match=r"payload\.at .*nanoseconds"):
        canonical({"at": Timestamp(2024, 5, 1)})


@given(values, values)
def test_different_values_have_different_forms(one, other):
    assert (canonical(one) == canonical(other)) == (_shape(one) == _shape(other))


@given(st.lists(st.integers() | st.text("ab") | st.dates(), unique=True, max_size=5), st.randoms())
def test_the_order_in_a_set_and_in_a_mixed_map_does_not_matter(items, random):
    shuffled = random.sample(items, len(items))
    assert canonical(set(items)) == canonical(frozenset(shuffled))
    assert canonical(dict.fromkeys(items, 1)) == canonical(dict.fromkeys(shuffled, 1))


def test_extra_fields_of_a_model_count_and_cached_values_do_not():
    from functools import cached_property

    class Open(pydantic.BaseModel, extra="allow"):
        a: int = 1

        @cached_property
        def double(self):
            return self.a * 2

    model = Open(b=2)
    before = canonical(model)
    assert model.double == 2
    assert canonical(model) == before == canonical(model) != canonical(Open(b=3))


def test_a_field_that_was_never_set_is_absent():
    @dataclasses.dataclass
    class Lazy:
        a: int
        b: int = dataclasses.field(init=False)

    assert canonical(Lazy(1)).endswith(b'{"a":1}]')


def _shape(value):
    """The value with its kinds spelled out: Python calls True and 1, or a naive and an aware UTC time, related."""
    if isinstance(value, dict):
        plain = all(isinstance(key, str) for key in value)
        return (
            "object" if plain else "map",
            frozenset((_shape(key), _shape(item)) for key, item in value.items()),
        )
    if isinstance(value, list):
        return ("array", tuple(map(_shape, value)))
    if isinstance(value, frozenset):
        return ("set", frozenset(map(_shape, value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Beyond 2**53 an int is exact and a float is what is left of one.
        return ("big int" if isinstance(value, int) and abs(value) > 2**53 else "number", value)
    if isinstance(value, datetime):
        return ("datetime", value.tzinfo is None, value)
    return (type(value).__name__, value)
