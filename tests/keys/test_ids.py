"""new_id is unique and sorts by time; content_id follows from the content, and from nothing else."""

import hashlib
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import keys_forking
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keys_strategies import json_values, values

from dupeproof.errors import ConfigError, KeyInvalid, KeyMissing
from dupeproof.keys import canonical, content_id, new_id


def test_a_new_id_is_a_version_7_uuid_with_the_namespace_in_front():
    assert UUID(new_id()).version == 7
    namespace, _, rest = new_id("billing").partition(":")
    assert namespace == "billing"
    assert UUID(rest).version == 7


def test_new_ids_of_one_thread_sort_in_the_order_they_were_made():
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_new_ids_carry_the_time():
    before = time.time_ns() // 1_000_000
    made = UUID(new_id()).int >> 80
    assert before - 1 <= made <= time.time_ns() // 1_000_000 + 1


def test_threads_never_make_the_same_id_and_each_sees_its_own_in_order():
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda _: [new_id() for _ in range(5_000)], range(8)))
    assert all(batch == sorted(batch) for batch in batches)
    assert len({made for batch in batches for made in batch}) == 40_000


def test_forked_processes_share_neither_ids_nor_a_counter():
    # In a process of its own: a small one forks fast enough for both to draw in the millisecond of the fork.
    run = subprocess.run([sys.executable, keys_forking.__file__], capture_output=True, check=True, text=True)
    pairs = json.loads(run.stdout)
    for own, childs in pairs:
        assert len(own) == len(set(own)) == len(childs) == len(set(childs)) == 5
        assert childs == sorted(childs)
        # Without its last 32 bits an id is its millisecond and the counter: not even those may meet.
        assert not {made[:-8] for made in own} & {made[:-8] for made in childs}
    assert len(pairs) == 200


@given(values)
def test_the_same_content_gives_the_same_id_in_any_insertion_order(value):
    assert content_id({"a": value, "b": 1}) == content_id({"b": 1, "a": value})


triples = st.tuples(
    json_values.filter(lambda value: value is not None),
    st.none() | json_values,
    st.none() | st.text("ab.-", min_size=1, max_size=3),
)


@given(triples, triples)
def test_no_two_different_triples_meet(one, other):
    same = [canonical(part) for part in one] == [canonical(part) for part in other]
    assert (_id(one) == _id(other)) == same


def _id(triple):
    payload, context, namespace = triple
    # Without the readable prefix, so that the hash alone must tell them apart.
    return content_id(payload, context=context, namespace=namespace)[-64:]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (({"x": 1}, {"a": "1|b", "b": "2"}, None), ({"x": 1}, {"a": "1", "b": "b|2"}, None)),
        (("c", "a|b", None), ("b|c", "a", None)),
        (("c", "a:b", "n"), ("c", "b", "n.a")),
        (("p", None, "a"), ("p", "a", None)),
        ((["p", "c"], None, None), ("p", "c", None)),
        (("1", None, None), (1, None, None)),
        ((1.0, None, None), ("1.0", None, None)),
        ((True, None, None), (1, None, None)),
    ],
)
def test_values_are_not_glued_together(one, other):
    assert _id(one) != _id(other)


def test_the_namespace_is_shown_and_hashed():
    assert re.fullmatch(r"[0-9a-f]{64}", content_id({}))
    assert re.fullmatch(r"billing:[0-9a-f]{64}", content_id({}, namespace="billing"))
    assert content_id({}, namespace="billing")[-64:] != content_id({})


def test_the_id_is_the_sha_256_of_the_canonical_array():
    expected = hashlib.sha256(b'["content_id",1,"shop",{"user":7},["o-1",500]]').hexdigest()
    assert content_id(("o-1", 500), context={"user": 7}, namespace="shop") == f"shop:{expected}"


def test_no_context_and_none_are_the_same_but_an_empty_one_is_not():
    assert content_id(1) == content_id(1, context=None) != content_id(1, context={})


def test_a_missing_payload_has_no_content_id():
    with pytest.raises(KeyMissing, match="payload is None"):
        content_id(None)


def test_errors_say_whether_payload_or_context_is_at_fault():
    with pytest.raises(KeyInvalid, match=r"^payload\.a is"):
        content_id({"a": object()})
    with pytest.raises(KeyInvalid, match=r"^context\.a is"):
        content_id({}, context={"a": object()})


@pytest.mark.parametrize("namespace", ["", "a:b", "a b", "ä", "a\n", "x" * 65, "a/b", 7, b"a"])
def test_a_bad_namespace_is_refused_with_the_rule(namespace):
    for make in (lambda: new_id(namespace), lambda: content_id({}, namespace=namespace)):
        with pytest.raises(ConfigError, match="1 to 64 letters"):
            make()


@pytest.mark.parametrize("namespace", ["a", "Billing_2.eu-west", "x" * 64, "0"])
def test_a_good_namespace_is_taken(namespace):
    assert new_id(namespace).startswith(f"{namespace}:")
