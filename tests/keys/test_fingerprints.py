"""A fingerprint covers the chosen parts of a request, all of them and nothing else."""

import dataclasses
import re

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keys_strategies import json_values, texts, values

from dupeproof.errors import ConfigError, KeyInvalid, KeyMissing
from dupeproof.keys import VOLATILE, canonical, digest, fingerprint
from dupeproof.keys.fingerprints import call_digest, fields_digest


@dataclasses.dataclass
class Line:
    sku: str
    price: int


class Order(msgspec.Struct):
    id: str
    lines: list[Line]


class Request(pydantic.BaseModel):
    order: dict
    request_id: str = ""


def test_it_is_64_hex_digits_and_does_not_depend_on_order():
    assert re.fullmatch("[0-9a-f]{64}", fingerprint({"a": 1}))
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


@pytest.mark.parametrize("name", VOLATILE)
def test_volatile_fields_at_the_top_do_not_count(name):
    assert fingerprint({"a": 1, name: 1}) == fingerprint({"a": 1, name: 2}) == fingerprint({"a": 1})


def test_volatile_fields_deeper_down_do_count():
    assert fingerprint({"reading": {"timestamp": 1}}) != fingerprint({"reading": {"timestamp": 2}})


def test_volatile_fields_count_when_the_caller_says_so():
    assert fingerprint({"timestamp": 1}, exclude=()) != fingerprint({"timestamp": 2}, exclude=())
    assert fingerprint({"timestamp": 1}, include=["timestamp"]) != fingerprint(
        {"timestamp": 2}, include=["timestamp"]
    )


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("a", {"a": 1, "b": 1}, {"a": 2, "b": 1}),
        ("a.b", {"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}),
        ("items.0.price", {"items": [{"price": 1}, {"price": 2}]}, {"items": [{"price": 9}, {"price": 2}]}),
        ("items.*.price", {"items": [{"price": 1}, {"price": 2}]}, {"items": [{"price": 8}, {"price": 9}]}),
        ("*.at", {"x": {"at": 1}, "y": {"at": 2}}, {"x": {"at": 8}, "y": {"at": 9}}),
        ("**.at", {"at": 1, "x": [{"y": {"at": 2}}]}, {"at": 8, "x": [{"y": {"at": 9}}]}),
        ("x.**.at", {"x": [{"y": {"at": 2}}]}, {"x": [{"y": {"at": 9}}]}),
        ("lines.*.price", Order("o", [Line("s", 1)]), Order("o", [Line("s", 2)])),
        ("order.at", Request(order={"at": 1, "b": 1}), Request(order={"at": 2, "b": 1})),
        ("a.7", {"a": {7: 1, 8: 1}}, {"a": {7: 2, 8: 1}}),
    ],
)
def test_an_excluded_path_does_not_count_and_an_included_one_does(path, one, other):
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one, exclude=[path]) == fingerprint(other, exclude=[path])
    assert fingerprint(one, include=[path]) != fingerprint(other, include=[path])


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("a", {"a": 1, "b": {"a": 1}}, {"a": 1, "b": {"a": 2}}),
        ("a.b", {"a": {"b": 1, "c": 1}}, {"a": {"b": 1, "c": 2}}),
        ("items.0.price", {"items": [{"price": 1}, {"price": 2}]}, {"items": [{"price": 1}, {"price": 9}]}),
        ("items.*.price", {"items": [{"price": 1, "n": 1}]}, {"items": [{"price": 1, "n": 2}]}),
        ("lines.*.price", Order("o", [Line("s", 1)]), Order("o", [Line("t", 1)])),
        ("request_id", Request(order={"a": 1}), Request(order={"a": 2})),
    ],
)
def test_the_rest_counts_with_exclude_and_does_not_with_include(path, one, other):
    assert fingerprint(one, exclude=[path]) != fingerprint(other, exclude=[path])
    assert fingerprint(one, include=[path]) == fingerprint(other, include=[path])


def test_include_comes_first_and_exclude_takes_away_from_it():
    one = {"order": {"id": 1, "at": 1}, "noise": 1}
    other = {"order": {"id": 1, "at": 2}, "noise": 2}
    assert fingerprint(one, include=["order"], exclude=["order.at"]) == fingerprint(
        other, include=["order"], exclude=["order.at"]
    )
    assert fingerprint(one, include=["order.*"], exclude=["**.at"]) == fingerprint(
        other, include=["order.*"], exclude=["**.at"]
    )


def test_included_parts_keep_their_places():
    paths = ["items.*.price"]
    assert fingerprint({"items": [{"price": 1}, {}]}, include=paths) != fingerprint(
        {"items": [{}, {"price": 1}]}, include=paths
    )
    assert fingerprint({"a": 1, "b": 2}, include=["a", "b"]) != fingerprint(
        {"a": 2, "b": 1}, include=["a", "b"]
    )
    assert fingerprint({1: "x", "1": "y"}, include=["*"]) != fingerprint({1: "y", "1": "x"}, include=["*"])


def test_the_order_of_the_paths_does_not_matter():
    request = {"a": 1, "b": [1, 2]}
    assert fingerprint(request, include=["a", "b"]) == fingerprint(request, include=("b", "a", "a"))


def test_an_object_less_a_field_is_still_of_its_class():
    assert fingerprint(Line("s", 1), exclude=["price"]) != fingerprint({"sku": "s"}, exclude=["price"])


@pytest.mark.parametrize("path", ["b", "a.c", "a.*.c", "**.x", "a.b.0"])
def test_an_included_path_that_matches_nothing_is_an_error_with_its_name(path):
    with pytest.raises(KeyMissing, match=re.escape(repr(path))):
        fingerprint({"a": {"b": "secret"}}, include=["a", path])


def test_an_excluded_path_that_matches_nothing_is_fine():
    assert fingerprint({"a": 1}, exclude=["b", "a.x.y", "**.z"]) == fingerprint({"a": 1})


@pytest.mark.parametrize("paths", ["amount", [""], ["a..b"], [".a"], [7], ["a.**"], ["**"]])
def test_a_path_that_is_none_is_refused(paths):
    with pytest.raises(ConfigError):
        fingerprint({"amount": 1}, exclude=paths)
    with pytest.raises(ConfigError):
        fingerprint({"amount": 1}, include=paths)


def test_what_has_no_canonical_form_is_named_and_may_be_excluded():
    request = {"order": {"id": 1, "socket": object()}}
    with pytest.raises(KeyInvalid, match=r"^request\.order\.socket is of type"):
        fingerprint(request)
    with pytest.raises(KeyInvalid, match=r"^request\.\*\.socket is of type"):
        fingerprint(request, include=["*"])
    assert fingerprint(request, exclude=["order.socket"]) == fingerprint({"order": {"id": 1}})


def test_a_cycle_is_refused_and_not_followed():
    request = {}
    request["a"] = request
    for chosen in ({}, {"exclude": ["**.x"]}, {"include": ["a"]}):
        with pytest.raises(KeyInvalid, match="contains itself"):
            fingerprint(request, **chosen)
    with pytest.raises(KeyMissing):
        fingerprint(request, include=["**.x"])


@given(values, values)
def test_fingerprints_and_digests_are_equal_exactly_when_the_contents_are(one, other):
    same = canonical(one) == canonical(other)
    assert (fingerprint(one, exclude=()) == fingerprint(other, exclude=())) == same
    assert (digest(one) == digest(other)) == same
    assert len(digest(one)) == 16


@given(texts.filter(lambda name: name and "." not in name and "*" not in name), json_values, json_values)
def test_any_name_can_be_left_out_or_singled_out(name, one, other):
    assert (
        fingerprint({name: one}, exclude=[name])
        == fingerprint({name: other}, exclude=[name])
        == fingerprint({})
    )
    same = canonical(one) == canonical(other)
    assert (fingerprint({name: one}, include=[name]) == fingerprint({name: other}, include=[name])) == same


@given(st.lists(values, max_size=4), st.dictionaries(st.sampled_from(["a", "B", "c_1"]), values))
def test_the_digest_of_a_call_is_that_of_its_arguments(args, kwargs):
    assert call_digest(tuple(args), kwargs) == digest([tuple(args), kwargs])


@given(st.dictionaries(st.from_regex(r"[A-Za-z_][a-z0-9_]{0,5}", fullmatch=True), values, max_size=5))
def test_the_digest_of_fields_is_that_of_the_dict_whatever_their_order(fields):
    names, args = tuple(fields), tuple(fields.values())
    digest_of = fields_digest(names, lambda args, _: digest(dict(zip(names, args, strict=True))))
    assert digest_of(args, {}) == digest(fields)


def test_an_argument_that_cannot_be_compared_is_named():
    with pytest.raises(KeyInvalid, match=r"^args\[1\] is of type"):
        call_digest((1, object()), {})
    with pytest.raises(KeyInvalid, match=r"^kwargs.amount is of type"):
        call_digest((1,), {"amount": object()})
