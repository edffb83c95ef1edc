"""A token works once, for what it was made for, on every store."""

import asyncio
import threading
import time
from base64 import urlsafe_b64encode

import pytest

from dupeproof import (
    AsyncOneTimeTokens,
    ConfigError,
    KeyInvalid,
    OneTimeTokens,
    TokenContextMismatch,
    TokenError,
    TokenExpired,
    TokenForged,
    TokenUsed,
)
from dupeproof.core.clock import system_clock
from dupeproof.core.events import Kind
from dupeproof.stores import open_async_store, open_store

SECRET = "a secret of the tests, long enough"
CONTEXT = {"user": 1, "action": "order"}


@pytest.fixture
def tokens(any_url):
    with OneTimeTokens(any_url, secret=SECRET) as made:
        yield made


def test_a_token_is_used_once(tokens):
    token, other = (tokens.issue(CONTEXT, ttl="5m") for _ in range(2))
    assert token != other
    assert tokens.status(token) == "unused"
    token_id = tokens.redeem(token, CONTEXT)
    assert len(token_id) == 32
    assert tokens.status(token) == "used"
    with pytest.raises(TokenUsed) as raised:
        tokens.redeem(token, CONTEXT)
    assert raised.value.token_id == token_id
    assert tokens.status(other) == "unused"
    tokens.redeem(other, dict(reversed(CONTEXT.items())))


def test_a_token_of_one_namespace_is_none_in_another(any_url):
    with (
        OneTimeTokens(any_url, secret=SECRET, namespace="orders") as orders,
        OneTimeTokens(any_url, secret=SECRET, namespace="refunds") as refunds,
    ):
        token = orders.issue(CONTEXT, ttl="5m")
        with pytest.raises(TokenForged):
            refunds.redeem(token, CONTEXT)
        assert refunds.status(token) == "forged"
        assert orders.redeem(token, CONTEXT)


async def test_tasks_use_it_once(any_url):
    async with AsyncOneTimeTokens(any_url, secret=SECRET) as tokens:
        token = tokens.issue(CONTEXT, ttl="5m")
        assert await tokens.status(token) == "unused"
        answers = await asyncio.gather(
            *(tokens.redeem(token, CONTEXT) for _ in range(20)), return_exceptions=True
        )
        assert sum(isinstance(answer, str) for answer in answers) == 1
        assert sum(isinstance(answer, TokenUsed) for answer in answers) == 19


async def test_a_store_of_its_own_kind_may_be_given():
    tokens = OneTimeTokens(open_store("memory://"), secret=SECRET)
    assert tokens.redeem(tokens.issue(CONTEXT, ttl="5m"), CONTEXT)
    async_tokens = AsyncOneTimeTokens(open_async_store("memory://"), secret=SECRET)
    assert await async_tokens.redeem(async_tokens.issue(CONTEXT, ttl="5m"), CONTEXT)
    with pytest.raises(ConfigError, match="is async"):
        OneTimeTokens(open_async_store("memory://"), secret=SECRET)
    with pytest.raises(ConfigError, match="is sync"):
        AsyncOneTimeTokens(open_store("memory://"), secret=SECRET)


def test_one_of_many_threads_gets_it(tokens):
    token = tokens.issue(CONTEXT, ttl="5m")
    start, won = threading.Barrier(16), []

    def redeem():
        start.wait()
        try:
            won.append(tokens.redeem(token, CONTEXT))
        except TokenUsed:
            return

    threads = [threading.Thread(target=redeem) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": 2, "action": "order"},
        {"user": "1", "action": "order"},
        {"user": 1},
        {"action": "order"},
        {},
        {"user": 1, "action": "order", "amount": 5},
        {"user": 1, "action": None},
        {"User": 1, "action": "order"},
    ],
)
def test_another_context_is_refused_and_uses_nothing_up(tokens, wrong):
    token = tokens.issue(CONTEXT, ttl="5m")
    with pytest.raises(TokenContextMismatch):
        tokens.redeem(token, wrong)
    assert tokens.status(token) == "unused"
    tokens.redeem(token, CONTEXT)


def test_an_expired_token_is_refused_used_or_not():
    now = [1_000_000]
    with OneTimeTokens("memory://", secret=SECRET, clock=lambda: now[0]) as tokens:
        used, unused = (tokens.issue(CONTEXT, ttl="5m") for _ in range(2))
        tokens.redeem(used, CONTEXT)
        now[0] += 300_000 - 1
        assert tokens.status(unused) == "unused"
        now[0] += 1
        for token in (used, unused):
            with pytest.raises(TokenExpired):
                tokens.redeem(token, CONTEXT)
        assert (tokens.status(used), tokens.status(unused)) == ("used", "expired")


def test_a_clock_that_is_behind_does_not_make_it_good_again(any_url):
    """The store's own clock decides how long a used token is known, and it is known for longer than it lives."""
    now = [system_clock()]
    with OneTimeTokens(any_url, secret=SECRET, clock=lambda: now[0]) as tokens:
        token = tokens.issue(CONTEXT, ttl="50ms")
        tokens.redeem(token, CONTEXT)
        time.sleep(0.1)
        with pytest.raises(TokenUsed):
            tokens.redeem(token, CONTEXT)


def changed_anywhere(token):
    for place, character in enumerate(token):
        yield token[:place] + ("A" if character != "A" else "B") + token[place + 1 :]


def test_a_token_changed_anywhere_is_forged():
    with OneTimeTokens("memory://", secret=SECRET) as tokens:
        token = tokens.issue(CONTEXT, ttl="5m")
        for forged in changed_anywhere(token):
            with pytest.raises(TokenForged):
                tokens.redeem(forged, CONTEXT)
            assert tokens.status(forged) == "forged"
        tokens.redeem(token, CONTEXT)


@pytest.mark.parametrize(
    "made_up",
    [
        "",
        "x",
        None,
        5,
        b"dt1",
        "dt1.default..",
        "dt1.default." + "A" * 54,
        "dt1.default." + "A" * 54 + "." + "A" * 43,
        "dt1.nobody." + "A" * 54 + "." + "A" * 43,
        "dt1.default." + "é" * 54 + "." + "A" * 43,
        "A" * 1_000_000,
        urlsafe_b64encode(b"{}").decode(),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_token_is_forged(made_up):
    with OneTimeTokens("memory://", secret=SECRET) as tokens:
        with pytest.raises(TokenForged) as caught:
            tokens.redeem(made_up, CONTEXT)
        assert isinstance(caught.value, TokenError)
        assert tokens.status(made_up) == "forged"


def test_secrets_are_rotated():
    old, new = "the first secret, long enough", "the second secret, long enough"
    with OneTimeTokens("memory://rotated", secret=old) as alone:
        before = alone.issue(CONTEXT, ttl="5m")
        with OneTimeTokens("memory://rotated", secret={"default": old, "k2": new}) as both:
            after = both.issue(CONTEXT, ttl="5m")
            assert after.split(".")[1] == "k2"
            with pytest.raises(TokenForged):
                alone.redeem(after, CONTEXT)
            both.redeem(before, CONTEXT)
            both.redeem(after, CONTEXT)
            with pytest.raises(TokenUsed):
                alone.redeem(before, CONTEXT)
        with OneTimeTokens("memory://rotated", secret={"k2": new}) as later:
            assert later.status(before) == "forged"
            assert later.status(after) == "used"
        with OneTimeTokens("memory://rotated", secret={"k2": old}) as mixed_up:
            assert mixed_up.status(after) == "forged"


def test_the_context_cannot_be_read_from_the_token():
    with OneTimeTokens("memory://", secret=SECRET) as tokens:
        token = tokens.issue({"card": "4111 1111"}, ttl="5m")
    assert "4111" not in token
    assert len(token) < 140


def test_uses_are_told_to_listeners_without_the_token():
    told = []
    with OneTimeTokens("memory://", secret=SECRET, events=[told.append]) as tokens:
        token = tokens.issue(CONTEXT, ttl="5m")
        with pytest.raises(TokenContextMismatch):
            tokens.redeem(token, {})
        tokens.redeem(token, CONTEXT)
        with pytest.raises(TokenUsed):
            tokens.redeem(token, CONTEXT)
    assert [event.kind for event in told] == [Kind.MISMATCH, Kind.FRESH, Kind.SEEN]
    assert len({event.key for event in told}) == 1
    assert told[0].key not in token


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"secret": "short"}, "token_urlsafe"),
        ({"secret": {}}, "no key"),
        ({"secret": {"a.b": SECRET}}, "letters"),
        ({"secret": {"k1": 5}}, "text or bytes"),
        ({"secret": SECRET, "leeway": "soon"}, "leeway"),
    ],
)
def test_wrong_options_are_refused(options, text):
    with pytest.raises(ConfigError, match=text) as caught:
        OneTimeTokens("memory://", **options)
    assert "short" not in str(caught.value)


def test_wrong_contexts_and_times_are_refused():
    with OneTimeTokens("memory://", secret=SECRET) as tokens:
        with pytest.raises(ConfigError, match="dict"):
            tokens.issue("user 1", ttl="5m")
        with pytest.raises(KeyInvalid, match=r"context\.user"):
            tokens.issue({"user": object()}, ttl="5m")
        for ttl in ("", 0, -5, None, "soon"):
            with pytest.raises(ConfigError, match="ttl"):
                tokens.issue(CONTEXT, ttl=ttl)
        token = tokens.issue(CONTEXT, ttl="5m")
        with pytest.raises(ConfigError, match="dict"):
            tokens.redeem(token, "user 1")
        assert tokens.status(token) == "unused"
