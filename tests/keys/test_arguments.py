"""The key of a call comes from its arguments, and different arguments never share one."""

import dataclasses
import enum
import inspect
from datetime import date
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dupeproof.errors import ConfigError, KeyInvalid, KeyMissing
from dupeproof.keys import bound_arguments, compile_key

IDENTIFIER = "12345678-1234-5678-1234-567812345678"


class Word(enum.StrEnum):
    RED = "red"


@dataclasses.dataclass
class Order:
    id: object = "o-1"
    customer: object = "c-1"


def charge(order_id, amount=1, *, currency="EUR"): ...
def ship(order, lines=()): ...
def log(first, /, *rest, **options): ...
def two(a, b): ...


def key(fn, spec, *args, **kwargs):
    return compile_key(fn, spec)(args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("o-1",), {}),
        (("o-1", 500), {}),
        ((), {"order_id": "o-1"}),
        (("o-1",), {"currency": "USD", "amount": 2}),
    ],
)
def test_an_argument_is_found_however_it_is_passed(args, kwargs):
    assert key(charge, "order_id", *args, **kwargs) == "o-1"


def test_defaults_and_variable_arguments_are_found():
    assert key(charge, "currency", "o-1") == "EUR"
    assert key(charge, "amount", "o-1") == "1"
    assert key(two, "b", 1, 2) == "2"
    assert key(log, "rest.1", "a", "b", "c") == "c"
    assert key(log, "options.id", "a", id="x") == "x"
    assert key(log, "first", "a", first="not this one") == "a"


@pytest.mark.parametrize(
    ("path", "order"),
    [
        ("order.id", Order()),
        ("order.id", {"id": "o-1"}),
        ("order.0.id", [{"id": "o-1"}]),
        ("order.head.id", {"head": Order()}),
    ],
)
def test_a_path_leads_into_objects_mappings_and_lists(path, order):
    assert key(ship, path, order) == "o-1"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("o-1", "o-1"),
        (7, "7"),
        (UUID(IDENTIFIER), IDENTIFIER),
        (True, "@true"),
        (date(2024, 5, 1), '@date"2024-05-01"'),
        (Word.RED, '@enum["Word","red"]'),
        (Decimal("1.50"), '@decimal"15e-1"'),
        ((1, "a"), '@[1,"a"]'),
        ("@true", "@@true"),
        ("true", "true"),
        ('@date"2024-05-01"', '@@date"2024-05-01"'),
    ],
)
def test_values_stand_for_themselves_or_in_canonical_form(value, expected):
    assert key(charge, "order_id", value) == expected
    assert key(charge, lambda order_id: order_id, value) == expected


def test_several_arguments_make_a_json_array():
    assert key(two, ["a", "b"], "x", 7) == '["x","7"]'
    assert key(two, ("a", "b"), "true", True) == '["true",true]'
    assert key(ship, ["order.id", "order.customer"], Order()) == '["o-1","c-1"]'


def test_a_template_reads_as_it_is_written():
    assert key(two, "charge/{a}:{b}", "x", 7) == "charge/x:7"
    assert key(ship, "{order.customer}:{order.id}", Order()) == "c-1:o-1"
    assert key(charge, "100% of {{{order_id}}}", "a%b:{c}") == "100% of {a%b:{c}}"


def test_the_classic_template_trap_is_closed():
    assert key(two, "{a}:{b}", "x:y", "z") == "x%3Ay:z"
    assert key(two, "{a}:{b}", "x", "y:z") == "x:y%3Az"


tricky = st.text('ab:%3A2@é[]",', min_size=1, max_size=5).filter(str.strip)
pairs = st.tuples(tricky, tricky)


@given(pairs, pairs, st.sampled_from(["{a}:{b}", "{a}3{b}", "A{a}ab{b}2", "{a}é{b}", "{a}@{b}", ["a", "b"]]))
def test_different_arguments_never_share_a_key(one, other, spec):
    key_of = compile_key(two, spec)
    assert (key_of(one, {}) == key_of(other, {})) == (one == other)


mixed = tricky | st.booleans() | st.dates() | st.lists(tricky, max_size=2)


@given(mixed, mixed, st.sampled_from(["a", "<{a}>", ["a"], "{a}:{b}"]))
def test_values_of_different_types_never_share_a_key(one, other, spec):
    key_of = compile_key(two, spec)
    assert (key_of((one, 1), {}) == key_of((other, 1), {})) == (one == other and type(one) is type(other))


@pytest.mark.parametrize(
    "spec", ["order.id", "{order.id}!", ["order.id"], ["lines", "order.id"], "{lines}-{order.id}"]
)
@pytest.mark.parametrize("order", [None, Order(None), Order(""), Order(" "), {}, {"id": None}, []])
def test_a_path_that_leads_to_nothing_is_named(spec, order):
    with pytest.raises(KeyMissing, match=r"path 'order\.id' is (None|missing|empty)"):
        key(ship, spec, order)


@pytest.mark.parametrize("spec", ["order_id", "<{order_id}>", ["amount", "order_id"]])
@pytest.mark.parametrize("value", [None, "", "\t"])
def test_an_argument_that_is_nothing_is_named(spec, value):
    with pytest.raises(KeyMissing, match=r"argument 'order_id' is (None|empty)"):
        key(charge, spec, value)


def test_a_function_that_returns_nothing_gives_no_key():
    with pytest.raises(KeyMissing, match="what key= returned is None"):
        key(two, lambda a, b: None, 1, 2)


def test_floats_are_refused_with_the_reason():
    with pytest.raises(KeyInvalid, match="'a' is a float"):
        key(two, "a", 0.3, 1)


def test_what_cannot_be_a_key_is_refused_without_being_shown():
    for value in ("secret\0", "secret" * 999, "secret\ud800", [object(), "secret"]):
        with pytest.raises(KeyInvalid) as caught:
            key(two, "a", value, 1)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("args", [(), ("a", 1, "too many")])
@pytest.mark.parametrize("spec", ["order_id", ["order_id"], "{order_id}-{amount}"])
def test_a_call_the_function_would_refuse_is_refused(args, spec):
    with pytest.raises(TypeError):
        key(charge, spec, *args)
    with pytest.raises(TypeError):
        key(charge, spec, "a", order_id="twice")
    with pytest.raises(TypeError):
        key(charge, spec, "a", unknown=1)


def test_an_unknown_name_is_an_error_at_once_that_lists_the_parameters():
    for spec in ("order", "order.id", ["order_id", "order"], "{order_id}:{order}"):
        with pytest.raises(ConfigError, match=r"'order'.*charge.*order_id, amount, currency$"):
            compile_key(charge, spec)
    with pytest.raises(ConfigError, match=r"write 'options\.id'"):
        compile_key(log, "id")


@pytest.mark.parametrize(
    "spec",
    [
        "",
        [],
        (),
        None,
        7,
        b"a",
        {"a": 1},
        [7],
        [""],
        "a.",
        "{}",
        "{0}",
        "{a!r}",
        "{a:>5}",
        "{a",
        "a}",
        "{{a}}",
        "{a}{b}",
        "{a}%{b}",
    ],
)
def test_a_spec_that_cannot_work_is_an_error_at_once(spec):
    with pytest.raises(ConfigError):
        compile_key(two, spec)


def test_an_async_key_function_is_an_error_at_once():
    async def later(a, b): ...

    with pytest.raises(ConfigError, match="async"):
        compile_key(two, later)


def test_a_function_without_readable_parameters_is_an_error_at_once():
    with pytest.raises(ConfigError, match="wrap it"):
        compile_key(dict.update, "a")


class Shop:
    def charge(self, order_id, amount=1): ...

    @classmethod
    def open(cls, name): ...


def test_bound_arguments_have_names_and_defaults_and_no_self():
    assert bound_arguments(charge)(("o-1",), {"amount": 5}) == {
        "order_id": "o-1",
        "amount": 5,
        "currency": "EUR",
    }
    assert bound_arguments(Shop.charge)((Shop(), "o-1"), {}) == {"order_id": "o-1", "amount": 1}
    assert bound_arguments(Shop.open.__func__)((Shop, "x"), {}) == {"name": "x"}
    assert bound_arguments(log)((1, 2, 3), {"x": 4}) == {"first": 1, "rest": (2, 3), "options": {"x": 4}}
    assert bound_arguments(lambda: 0)((), {}) == {}


def test_a_method_may_take_its_key_from_self():
    shop = Shop()
    shop.tenant = "t-1"
    assert key(Shop.charge, "{self.tenant}:{order_id}", shop, "o-1") == "t-1:o-1"


def plain(a, b=2): ...
def positional(a, /, b=2): ...
def keywords(a, *, b=2, c): ...


@given(
    st.sampled_from([plain, positional, keywords, log, lambda: 0]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "c", "first"]), st.integers(), max_size=3),
)
def test_binding_agrees_with_the_language(fn, args, kwargs):
    assert _outcome(bound_arguments(fn), tuple(args), kwargs) == _outcome(
        _bound_by_inspect(fn), tuple(args), kwargs
    )


def _bound_by_inspect(fn):
    def bind(args, kwargs):
        bound = inspect.signature(fn).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    return bind


def _outcome(bind, args, kwargs):
    try:
        return bind(args, kwargs)
    except TypeError as error:
        return str(error)
