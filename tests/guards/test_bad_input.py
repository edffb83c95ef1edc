"""Wrong use: the named error, a text that says what to do, and nothing changed."""

import pytest

from dupeproof import (
    AsyncCooldown,
    AsyncOnce,
    ConfigError,
    Cooldown,
    DupeproofError,
    KeyInvalid,
    KeyMissing,
    Once,
)
from dupeproof.stores import open_async_store, open_store

BAD_KEYS = [
    (None, KeyMissing),
    ("", KeyMissing),
    ("   ", KeyMissing),
    ("k" * 10_000, KeyInvalid),
    ("a\0b", KeyInvalid),
    ("a\ud800", KeyInvalid),
    (b"bytes", KeyInvalid),
    (True, KeyInvalid),
    (1.5, KeyInvalid),
    (["k"], KeyInvalid),
]


@pytest.mark.parametrize(("key", "error"), BAD_KEYS, ids=lambda value: ascii(value)[:20])
def test_a_bad_key_is_refused_everywhere_and_changes_nothing(any_url, key, error):
    with Once(any_url) as once:
        before = once.stats()
        calls = [
            lambda: once.seen(key),
            lambda: once.fresh(["good", key]),
            lambda: once.run(key, lambda: pytest.fail("ran")),
            lambda: once.attempt(key, lambda: pytest.fail("ran")),
            lambda: once.claim(key),
            lambda: once.get(key),
            lambda: once.forget(key),
            lambda: once.resolve(key, result=1),
        ]
        for call in calls:
            with pytest.raises(error) as caught:
                call()
            text = str(caught.value)
            assert len(text) < 300
            assert "kkkkkkkkkk" not in text
        assert once.stats() == before


def test_a_missing_argument_for_the_key_is_named():
    once = Once("memory://")

    @once(key="order_id")
    def charge(order_id: str | None = None) -> None:
        pytest.fail("ran")

    with pytest.raises(KeyMissing, match="order_id"):
        charge()
    with pytest.raises(KeyMissing, match="order_id"):
        charge("")


def test_an_argument_that_cannot_be_compared_is_named_with_the_way_out():
    once = Once("memory://")

    @once(key="order_id")
    def charge(order_id: str, session: object) -> None:
        pytest.fail("ran")

    with pytest.raises(KeyInvalid, match=r"session.*fingerprint="):
        charge("o-1", object())
    assert once.get(charge.key_for("o-1", object())) is None


@pytest.mark.parametrize(
    "value", ["0s", -5, 0, "-5m", "24", "h", "", "1 fortnight", None, True, float("nan"), float("inf"), 1e300]
)
@pytest.mark.parametrize("name", ["window", "lease", "wait"])
def test_a_bad_duration_is_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=name):
        Once("memory://", **{name: value})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on_busy": "sleep"}, "'raise', 'wait'"),
        ({"on_abandoned": "retry"}, "'rerun', 'hold'"),
        ({"on_store_down": "ignore"}, "'raise', 'run'"),
        ({"max_attempts": 0}, "at least 1"),
        ({"max_attempts": True}, "at least 1"),
        ({"namespace": ""}, "letters"),
        ({"namespace": "a:b"}, "letters"),
        ({"namespace": None}, "letters"),
    ],
)
def test_a_bad_option_is_refused_with_what_there_is(options, text):
    with pytest.raises(ConfigError, match=text):
        Once("memory://", **options)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("mysql://localhost/db", "hold inboxes and outboxes only"),
        ("dedup.db", "sqlite:///"),
        ("", "memory://"),
        ("sqlite://dedup.db", "sqlite:///file.db"),
        ("sqlite:///", "sqlite:///file.db"),
        ("sqlite:///:memory:", "use memory://"),
        ("sqlite:///a.db?synchronous=off", "normal, full"),
        ("sqlite:///a.db?mode=ro", "no option 'mode'"),
        ("memory://?x=1", "no option 'x'"),
        ("memory:///x", "memory://name"),
        ("redis://localhost:port", "port"),
        ("redis://localhost/zero", "database"),
        ("redis://a,b", "redis+cluster://"),
        ("redis+cluster://a/1", "database 0"),
        ("redis+sentinel://a:26379", "name of the primary"),
        ("redis://localhost?retries=3", "no option 'retries'"),
        ("redis://localhost?timeout=0", "timeout"),
        ("postgresql://localhost/db?pool=none", "pool"),
        ("postgresql://localhost/db?nonsense=1", "not a PostgreSQL URL"),
        ("postgresql://u:secret@localhost:port/db", "not a PostgreSQL URL"),
    ],
)
def test_a_bad_url_is_refused_without_its_secrets(url, text):
    for opener in (Once, AsyncOnce, Cooldown, AsyncCooldown):
        with pytest.raises(ConfigError) as caught:
            opener(url)
        assert text in str(caught.value)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "thing", [None, 5, object(), {"url": "memory://"}, Once("memory://"), AsyncOnce("memory://")]
)
def test_something_that_is_no_store_is_refused(thing):
    with pytest.raises(ConfigError, match="store"):
        Once(thing)


def test_a_store_of_the_wrong_kind_is_refused():
    with pytest.raises(ConfigError, match="async"):
        Once(open_async_store("memory://"))
    with pytest.raises(ConfigError, match="sync"):
        AsyncOnce(open_store("memory://"))


async def test_a_store_whose_calls_leave_as_batches_is_of_its_kind_too(tmp_path):
    url = f"sqlite:///{tmp_path / 'dedup.db'}"
    with pytest.raises(ConfigError, match="async"):
        Once(open_async_store(url))
    with pytest.raises(ConfigError, match="sync"):
        AsyncOnce(open_store(url))
    assert Once(open_store(url)).seen("k") is False
    assert await AsyncOnce(open_async_store(url)).seen("k") is True


def test_the_wrong_kind_of_function_is_refused_when_decorating():
    once, aonce = Once("memory://"), AsyncOnce("memory://")

    async def coroutine(x: int) -> None: ...

    def plain(x: int) -> None: ...

    def generator(x: int):
        yield x

    async def async_generator(x: int):
        yield x

    with pytest.raises(ConfigError, match="AsyncOnce"):
        once(key="x")(coroutine)
    with pytest.raises(ConfigError, match="AsyncOnce"):
        once.run("k", coroutine, 1)
    with pytest.raises(ConfigError, match="guard it with Once"):
        aonce(key="x")(plain)
    for decorate in (once(key="x"), aonce(key="x")):
        for bad in (generator, async_generator):
            with pytest.raises(ConfigError, match="generator"):
                decorate(bad)
        with pytest.raises(ConfigError, match="expected a function"):
            decorate("not a function")


def test_a_key_that_names_no_argument_is_refused_when_decorating():
    once = Once("memory://")
    with pytest.raises(ConfigError, match="order_id"):

        @once(key="order_idd")
        def charge(order_id: str) -> None: ...


def test_an_awaitable_that_a_sync_guard_was_handed_never_counts_as_run():
    once = Once("memory://")

    async def work() -> None:
        pytest.fail("ran")

    def start():
        return work()

    with pytest.raises(ConfigError, match="AsyncOnce"):
        once.run("k", start)
    assert once.get("k").state == "failed"


async def test_an_async_guard_takes_a_plain_function_to_run():
    once = AsyncOnce("memory://")
    assert await once.run("k", lambda: 5) == 5


def test_metadata_that_is_not_json_is_refused_before_the_mark():
    once = Once("memory://")
    with pytest.raises(ConfigError, match="meta="):
        once.seen("k", meta=object())
    assert once.seen("k") is False


def test_only_a_won_claim_takes_a_result():
    once = Once("memory://")
    once.run("k", lambda: 1)
    with once.claim("k") as claim, pytest.raises(ConfigError, match="won"):
        claim.result = 2
    assert once.get("k").result == 1


def test_a_result_that_cannot_be_stored_does_not_resolve():
    once = Once("memory://")
    with pytest.raises(ConfigError, match="stored"):
        once.resolve("k", result=object())


def test_every_error_is_a_dupeproof_error():
    import dupeproof

    for name in (
        "Busy",
        "Held",
        "Dead",
        "ClaimLost",
        "NotReplayable",
        "KeyReused",
        "KeyMissing",
        "KeyInvalid",
    ):
        assert issubclass(getattr(dupeproof, name), DupeproofError)


@pytest.mark.parametrize("kind", [Once, Cooldown, AsyncOnce, AsyncCooldown])
@pytest.mark.parametrize("guard", [Once, AsyncOnce])
def test_a_guard_is_no_store(kind, guard):
    with pytest.raises(ConfigError, match=f"expected a store URL, a store, .* got {guard.__name__}"):
        kind(guard("memory://"))
