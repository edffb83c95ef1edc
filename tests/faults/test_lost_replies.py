"""A request or a reply lost on the wire: verbs that can be repeated are, and the one that cannot says so."""

import contextlib

import pytest

from dupeproof import Busy, Once, StoreUnavailable
from dupeproof.stores.redis.lua import script
from support.flavors import both_flavors, open_once
from support.proxy import Proxy
from support.stores import on
from support.workers import wait_for

either = pytest.mark.parametrize("what", ["request", "reply"])
servers = on("redis", "postgres")


@pytest.fixture
def proxy(url):
    with contextlib.closing(Proxy(url)) as proxy:
        yield proxy


@pytest.fixture
def sign(url):
    """The bytes by which a verb is known on the wire."""
    if url.startswith("redis"):
        commands = {"claim": b"$3\r\nGET\r\n$2\r\nPX\r\n", "mark": b"$2\r\nNX\r\n$2\r\nPX\r\n"}
        scripts = {"finish": "finish", "fail": "finish", "forget": "delete", "reopen": "release"}
        return lambda verb: commands.get(verb) or script(scripts.get(verb, verb)).sha
    functions = {"reopen": "release", "resolve": "finish"}
    statements = {"forget": b"DELETE FROM dupeproof_records"}
    return lambda verb: statements.get(verb) or f"dupeproof_{functions.get(verb, verb)}_v1".encode()


@pytest.fixture
def once(proxy, flavor):
    with open_once(flavor, proxy.url) as once:
        once.run("before", int)
        assert once.seen("before") is False
        yield once


@servers
@either
@both_flavors
@pytest.mark.parametrize("verb", ["claim", "finish"])
def test_a_lost_claim_or_finish_is_repeated_and_the_call_runs_once(once, proxy, sign, what, verb):
    runs = []
    proxy.lose(what, sign(verb))
    result = once.attempt("key", lambda: runs.append(1) or "value")
    assert proxy.lost.is_set()
    assert (result.value, result.replayed, result.attempt) == ("value", False, 1)
    again = once.attempt("key", lambda: runs.append(1))
    assert (again.value, again.replayed, again.attempt) == ("value", True, 1)
    assert runs == [1]


@servers
@either
@both_flavors
def test_a_lost_replay_is_repeated(once, proxy, sign, what):
    once.run("key", lambda: "value")
    proxy.lose(what, sign("claim"))
    assert once.attempt("key", int).replayed
    assert proxy.lost.is_set()


@servers
@either
@both_flavors
def test_a_lost_fail_is_repeated_and_counts_as_one_attempt(once, proxy, sign, what):
    proxy.lose(what, sign("fail"))
    with pytest.raises(ZeroDivisionError):
        once.run("key", lambda: 1 // 0)
    assert proxy.lost.is_set()
    entry = once.get("key")
    assert (entry.state, entry.attempts, entry.error) == ("failed", 1, "ZeroDivisionError")
    assert once.attempt("key", int).attempt == 2


@servers
@either
@both_flavors
def test_a_lost_renewal_is_repeated_and_the_claim_is_kept(url, proxy, sign, flavor, what):
    with open_once(flavor, proxy.url, lease="600ms") as once, Once(url) as competitor:

        def work():
            proxy.lose(what, sign("renew"))
            assert proxy.lost.wait(20)
            already = proxy.count(sign("renew"))
            wait_for(lambda: proxy.count(sign("renew")) >= already + 3, what="three more renewals")
            with pytest.raises(Busy):
                competitor.run("key", int)
            return "value"

        result = once.attempt("key", work)
        assert (result.value, result.attempt) == ("value", 1)
        assert competitor.attempt("key", work).replayed


@servers
@either
@both_flavors
def test_a_lost_question_whether_an_id_was_seen_raises_and_is_never_answered_wrongly(once, proxy, sign, what):
    proxy.lose(what, sign("mark"))
    with pytest.raises(StoreUnavailable):
        once.seen("id")
    assert proxy.lost.is_set()
    assert once.seen("id") is (what == "reply")  # the mark is there exactly if the server got the request
    proxy.lose(what, sign("mark"))
    with pytest.raises(StoreUnavailable):
        once.fresh(["a", "b"])
    assert once.fresh(["a", "b", "c"]) == (["c"] if what == "reply" else ["a", "b", "c"])


@servers
@either
def test_a_lost_release_still_frees_the_key(url, proxy, sign, what):
    with Once(proxy.url) as once, Once(url) as other:
        once.run("before", int)
        with once.claim("key") as claim:
            proxy.lose(what, sign("release"))
            assert claim.release()
        assert proxy.lost.is_set()
        wait_for(lambda: other.get("key") is None, what="the key to be handed back")
        assert other.attempt("key", int).attempt == 1


@servers
@both_flavors
def test_a_late_copy_of_a_repeated_claim_is_granted_to_nobody(url, proxy, sign, flavor):
    def fail(guard):
        with pytest.raises(ZeroDivisionError):
            guard.run("key", lambda: 1 // 0)

    with open_once(flavor, f"{proxy.url}?timeout=1s", on_abandoned="hold") as once, Once(url) as other:
        once.run("before", int)
        proxy.lose("late", script("claim").sha if url.startswith("redis") else sign("claim"))
        fail(once)
        assert proxy.lost.is_set()
        fail(other)  # from here on the record does not know the first claim's token any more
        proxy.arrive()
        assert other.get("key").state == "failed"


MENDING = {
    "forget": (lambda once, key: once.forget(key), lambda entry: entry is None),
    "reopen": (lambda once, key: once.reopen(key), lambda entry: entry is None),
    "resolve": (lambda once, key: once.resolve(key, "by hand"), lambda entry: entry.state == "done"),
}


@servers
@either
@pytest.mark.parametrize("verb", MENDING)
def test_a_key_is_mended_once_or_the_caller_is_told_that_nobody_knows(url, proxy, sign, what, verb):
    """Sent twice, the second copy would find nothing and say so, or remove what somebody else has made since."""
    mend, done = MENDING[verb]
    with Once(proxy.url) as once, Once(url) as other:
        for key in ("warm", "key"):
            with pytest.raises(ZeroDivisionError):
                other.run(key, lambda: 1 // 0)
        assert mend(once, "warm")
        lose_before(once, verb, lambda: proxy.lose(what, sign(verb)))
        with pytest.raises(StoreUnavailable):
            mend(once, "key")
        assert proxy.lost.is_set()
        assert done(other.get("key")) is (what == "reply")


def lose_before(once, verb, arm):
    """Reopen and resolve look at the key first: what is to be lost is the step after that."""
    if verb == "forget":
        arm()
        return
    looking = once._store.get

    def get(keys):
        found = looking(keys)
        arm()
        return found

    once._store.get = get
