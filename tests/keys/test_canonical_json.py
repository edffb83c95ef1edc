"""JSON values come out exactly as RFC 8785 says, checked against the RFC's own samples."""

import json
import struct
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import pytest
from hypothesis import given
from keys_strategies import json_values, texts, whole

from dupeproof.errors import KeyInvalid
from dupeproof.keys import canonical

APPENDIX_B = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


def test_the_sample_of_section_3_2_2_gives_the_bytes_of_section_3_2_4():
    sample = json.loads(
        r"""{
          "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
          "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
          "literals": [null, true, false]
        }"""
    )
    assert canonical(sample) == bytes.fromhex(
        "7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72"
        "75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73 22 3a"
        "5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31"
        "65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37"
        "5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30"
        "30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d"
    )


def test_names_sort_by_utf16_code_units_as_in_section_3_2_3():
    sample = json.loads(
        r"""{
          "\u20ac": "Euro Sign",
          "\r": "Carriage Return",
          "\ufb33": "Hebrew Letter Dalet With Dagesh",
          "1": "One",
          "\ud83d\ude00": "Emoji: Grinning Face",
          "\u0080": "Control",
          "\u00f6": "Latin Small Letter O With Diaeresis"
        }"""
    )
    assert list(json.loads(canonical(sample)).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


@pytest.mark.parametrize(("bits", "expected"), APPENDIX_B)
def test_the_numbers_of_appendix_b_are_written_as_there(bits, expected):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number) == expected.encode()


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_the_non_numbers_of_appendix_b_are_refused(bits):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    with pytest.raises(KeyInvalid, match="NaN or infinite"):
        canonical(number)


def test_control_characters_have_the_escapes_of_section_3_2_2_2_and_nothing_else_is_escaped():
    short = {0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0C: "\\f", 0x0D: "\\r", 0x22: '\\"', 0x5C: "\\\\"}
    for code in [*range(0x300), 0x2028, 0x2029, 0xFEFF, 0xFFFF, 0x1F600]:
        expected = short.get(code) or (f"\\u{code:04x}" if code < 0x20 else chr(code))
        assert canonical(chr(code)) == f'"{expected}"'.encode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1e16, "10000000000000000"),
        (-1.5e20, "-150000000000000000000"),
        (123456789.125, "123456789.125"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.25e-7, "-1.25e-7"),
        (1.5e300, "1.5e+300"),
        (0.1 + 0.2, "0.30000000000000004"),
        (2**53, "9007199254740992"),
        (-0.0, "0"),
        (100.0, "100"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(value, expected):
    assert canonical(value) == expected.encode()


@given(whole)
def test_a_whole_number_is_the_same_as_int_and_as_float(number):
    assert canonical(number) == canonical(float(number))


@given(json_values)
def test_json_values_read_back_as_equal(value):
    # To RFC 8785 every number is a double; Python's parser would read a big one as an int.
    assert json.loads(canonical(value), parse_int=float) == value


@given(json_values)
def test_the_form_of_a_read_back_form_is_itself(value):
    once = canonical(value)
    assert canonical(json.loads(once, parse_int=float)) == once


@given(json_values)
def test_the_order_in_which_a_dict_was_built_does_not_matter(value):
    assert canonical(_reversed(value)) == canonical(value)


@given(texts, texts)
def test_different_texts_have_different_forms(one, other):
    assert (canonical(one) == canonical(other)) == (one == other)


def test_tuples_and_lists_are_arrays_and_nested_dicts_are_sorted_too():
    assert canonical((1, [{"b": 1, "a": ()}])) == b'[1,[{"a":[],"b":1}]]'


def test_subclasses_are_written_as_their_base_whatever_they_print():
    class Loud(str):
        __slots__ = ()

        def __str__(self):
            return self.upper()

    class Odd(int):
        __repr__ = __str__ = lambda self: "odd"

    class Rough(float):
        __repr__ = __str__ = lambda self: "rough"

    class Point(NamedTuple):
        x: int
        y: int

    value = {
        Loud("key"): [
            Loud("a"),
            Odd(7),
            Rough(1.5),
            Point(1, 2),
            OrderedDict(z=1, a=2),
            defaultdict(int, b=1),
        ]
    }
    assert canonical(value) == b'{"key":["a",7,1.5,[1,2],{"a":2,"z":1},{"b":1}]}'


def test_booleans_are_not_the_numbers_they_equal_in_python():
    assert canonical([True, False, 1, 0]) == b"[true,false,1,0]"


def test_every_finite_double_keeps_its_value():
    for exponent in range(-320, 308):
        number = float(f"7.123456789e{exponent}")
        assert float(canonical(number)) == number


def _reversed(value):
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [_reversed(item) for item in value]
    return value
