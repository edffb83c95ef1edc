"""A key is text that every store can hold; its digest tells namespaces apart."""

import enum
from uuid import UUID

import pytest
import uuid_utils
from hypothesis import given
from hypothesis import strategies as st

from dupeproof.errors import KeyInvalid, KeyMissing
from dupeproof.keys import check_key, key_digest
from dupeproof.keys.names import check_keys

IDENTIFIER = "12345678-1234-5678-1234-567812345678"


class Word(enum.StrEnum):
    A = "a"


class Name(str):
    __slots__ = ()

    def __str__(self):
        return "something else"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("o-1", "o-1"),
        (" o-1 ", " o-1 "),
        ("größe-€-😀", "größe-€-😀"),
        (0, "0"),
        (-7, "-7"),
        (2**70, str(2**70)),
        (UUID(IDENTIFIER), IDENTIFIER),
        (uuid_utils.UUID(IDENTIFIER), IDENTIFIER),
        ("x" * 4096, "x" * 4096),
        ("é" * 2048, "é" * 2048),
        (Name("o-1"), "o-1"),
    ],
)
def test_text_numbers_and_uuids_are_keys(key, text):
    checked = check_key(key)
    assert checked == text
    assert type(checked) is str


@pytest.mark.parametrize("key", [None, "", " ", "\t\n", "\u3000", Name("")])
def test_nothing_is_not_a_key(key):
    with pytest.raises(KeyMissing, match="pass the id"):
        check_key(key)


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        (b"secret", "bytes; decode it first"),
        (bytearray(b"secret"), "bytearray; decode it first"),
        (True, "bool; pass a str, an int or a UUID"),
        (1.5, "float; pass"),
        (["secret"], "list; pass"),
        ({"secret": 1}, "dict; pass"),
        (object(), "object; pass"),
        (Word.A, r"Word; pass its \.value"),
        ("secret\0", "NUL"),
        ("secret\ud800", "lone surrogate"),
        ("secret" * 1000, "longer than 4096 bytes; pass content_id"),
        ("é" * 2049, "longer than 4096 bytes"),
        pytest.param(10**5000, "longer than 4096 bytes", id="huge"),
    ],
)
def test_what_cannot_be_a_key_is_refused_with_the_fix_and_not_shown(key, fix):
    with pytest.raises(KeyInvalid, match=fix) as caught:
        check_key(key)
    assert not isinstance(caught.value, KeyMissing)
    assert "secret" not in str(caught.value)


pairs = st.tuples(st.text("ab", max_size=4), st.text("ab", max_size=4))


@given(pairs, pairs)
def test_digests_tell_every_namespace_and_key_apart(one, other):
    digests = [key_digest(namespace)(key) for namespace, key in (one, other)]
    assert [len(digest) for digest in digests] == [16, 16]
    assert (digests[0] == digests[1]) == (one == other)


def test_a_digest_does_not_depend_on_the_keys_before_it():
    digest = key_digest("billing")
    first = digest("o-1")
    digest("o-2")
    assert digest("o-1") == first == key_digest("billing")("o-1")


def test_the_digest_of_a_key_never_changes():
    assert key_digest("billing")("charge:o-1").hex() == "b29c5459168ede29aa88bd7232d357fc"


def _checked(check, keys):
    try:
        return check(keys)
    except KeyInvalid as exc:
        return type(exc), str(exc)


_odd_keys = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["", " ", "a b", "a\0b", "é", "x" * 4096, "x" * 4097, "\ud800", Word.A, Name("n"), 7, None, b"x"]
    ),
)


@given(
    st.one_of(
        st.lists(st.from_regex(r"[!-~]{1,8}", fullmatch=True), max_size=9), st.lists(_odd_keys, max_size=9)
    )
)
def test_many_keys_are_checked_like_each_of_them(keys):
    assert _checked(check_keys, keys) == _checked(lambda keys: [check_key(key) for key in keys], keys)
