"""What comes back on a replay: equal, and of the same type."""

import datetime as dt
import enum
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from dupeproof import AsyncOnce, ConfigError, NotReplayable, Once
from dupeproof.core.codecs import JsonCodec, origin_of, with_origin


@dataclass
class Receipt:
    id: str
    lines: list[int]
    at: dt.datetime | None = None


class Model(pydantic.BaseModel):
    name: str
    price: Decimal


class Record(msgspec.Struct):
    name: str


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


TYPED = [
    (int, 0),
    (str, ""),
    (type(None), None),
    (bool, False),
    (list, []),
    (str, "x" * 1_000_000),
    (float, 0.1),
    (bytes, b"\x00\xff"),
    (Decimal, Decimal("1.10")),
    (dt.datetime, dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)),
    (dt.date, dt.date(2026, 1, 2)),
    (uuid.UUID, uuid.UUID(int=5)),
    (Color, Color.RED),
    (Point, Point(1, 2)),
    (Receipt, Receipt("r", [1, 2], dt.datetime(2026, 1, 1, tzinfo=dt.UTC))),
    (Record, Record("n")),
    (Model, Model(name="n", price=Decimal("9.99"))),
    (list[Model], [Model(name="n", price=Decimal(1))]),
    (dict[int, Receipt], {1: Receipt("r", [])}),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (Receipt | None, None),
]


@pytest.mark.parametrize(("kind", "value"), TYPED, ids=lambda v: ascii(v)[:30])
def test_annotated_values_replay_equal_and_of_the_same_type(any_url, kind, value):
    def work():
        return value

    work.__annotations__["return"] = kind
    with Once(any_url) as once:
        guarded = once(key=lambda: "k")(work)
        assert guarded() == value
        replayed = guarded()
        assert replayed == value
        assert type(replayed) is type(value)


@pytest.mark.parametrize("value", [0, "", None, False, [], {}, 0.0, {"a": [1, "x", None]}])
def test_unannotated_json_values_replay_as_they_were(value):
    once = Once("memory://")
    once.run("k", lambda: value)
    replayed = once.attempt("k", lambda: pytest.fail("ran twice"))
    assert replayed.replayed
    assert replayed.value == value
    assert type(replayed.value) is type(value)


def test_unannotated_values_come_back_as_json_gives_them():
    once = Once("memory://")
    once.run("k", lambda: (1, {2: "x"}))
    assert once.run("k", lambda: None) == [1, {"2": "x"}]


@pytest.mark.parametrize(
    "value",
    [object(), math.nan, [1.0, math.inf], {"a": lambda: 1}, "\ud800"],
    ids=["object", "nan", "infinity", "function", "surrogate"],
)
def test_a_value_that_cannot_be_stored_is_given_once_and_never_costs_a_second_run(any_url, value):
    runs = []

    def work() -> Any:
        runs.append(1)
        return value

    with Once(any_url) as once:
        assert once.run("k", work) is value
        for _ in range(2):
            with pytest.raises(NotReplayable, match="not run again"):
                once.run("k", work)
        assert runs == [1]
        assert once.get("k").state == "done"


def test_a_null_beside_a_finite_float_is_fine():
    once = Once("memory://")
    once.run("k", lambda: {"a": None, "b": 1.5, "c": "null"})
    assert once.run("k", lambda: 0) == {"a": None, "b": 1.5, "c": "null"}


class Socket:
    pass


@pytest.mark.parametrize("kind", [Socket, list[Socket], Socket | None, dict[str, tuple[Socket, int]]])
def test_a_return_type_that_can_never_be_stored_is_refused_when_decorating(kind):
    def connect():
        pytest.fail("ran")

    connect.__annotations__["return"] = kind
    once = Once("memory://")
    with pytest.raises(ConfigError, match=r"cannot be stored.*codec="):
        once(key=lambda: "k")(connect)
    with pytest.raises(ConfigError, match="cannot be stored"):
        once.run("k", connect)
    assert once.get("k") is None


def test_a_value_not_of_its_annotated_type_is_not_replayed_as_something_else():
    def work() -> int:
        return "five"  # type: ignore[return-value]

    once = Once("memory://")
    assert once.run("k", work) == "five"
    with pytest.raises(NotReplayable):
        once.run("k", work)


@dataclass
class Cents:
    amount: int

    def __post_init__(self):
        self.amount *= 100


@dataclass
class Base:
    a: int


@dataclass
class Derived(Base):
    b: int


class Doubling(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def double(cls, n: int) -> int:
        return 2 * n


class Secretive(pydantic.BaseModel):
    password: pydantic.SecretStr
    hidden: int = pydantic.Field(default=0, exclude=True)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Cents, Cents(5)),
        (Base, Derived(1, 2)),
        (list[Base], [Derived(1, 2)]),
        (Doubling, Doubling(n=3)),
        (Secretive, Secretive(password="p", hidden=5)),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_value_its_type_would_change_on_reading_is_not_replayed_changed(kind, value):
    def work():
        return value

    work.__annotations__["return"] = kind
    once = Once("memory://")
    assert once.run("k", work) is value
    with pytest.raises(NotReplayable, match="not run again"):
        once.run("k", work)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Sequence[int], (1, 2)),
        (float, 5),
        (Base, Base(1)),
        (Secretive | None, None),
        (Mapping[str, int], {"a": 1}),
    ],
)
def test_a_value_that_comes_back_equal_is_replayed(kind, value):
    def work():
        return value

    work.__annotations__["return"] = kind
    once = Once("memory://")
    once.run("k", work)
    again = once.run("k", work)
    assert again == value or list(again) == list(value)


def test_a_codec_of_ones_own():
    class Latin:
        name = "latin"

        def encode(self, value, returns):
            return value.encode("latin-1")

        def decode(self, data, returns):
            return data.decode("latin-1")

        def prepare(self, returns):
            if returns is not str:
                raise ConfigError("only text")

    once = Once("memory://shared-codec", codec=Latin())

    def word(text: str) -> str:
        return text

    assert once.run("k", word, "é") == once.run("k", word, "é") == "é"
    assert once.run("bad", word, "€") == "€"
    with pytest.raises(NotReplayable):
        once.run("bad", word, "€")
    with pytest.raises(NotReplayable, match="codec 'latin'"):
        Once("memory://shared-codec").run("k", word, "é")


async def test_async_replays_are_typed_too(any_url):
    async with AsyncOnce(any_url) as once:

        @once(key="number")
        async def receipt(number: str) -> Receipt:
            return Receipt(number, [1])

        assert await receipt("r") == await receipt("r") == Receipt("r", [1])


def test_a_value_that_was_stored_with_its_trace_can_be_shown():
    class Traced(JsonCodec):
        def encode(self, value, returns=Any):
            return with_origin("00-trace-span-01", super().encode(value, returns))

        def decode(self, data, returns):
            return super().decode(origin_of(data)[1], returns)

    once = Once("memory://", codec=Traced())
    assert once.run("k", lambda: 7) == once.run("k", lambda: 8) == 7
    assert once.get("k").result == 7
