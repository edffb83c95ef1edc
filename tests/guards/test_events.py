"""Events: every outcome is told, never with a raw key, and a broken listener breaks nothing."""

import pytest

from dupeproof import AsyncOnce, Busy, Dead, KeyReused, Once


def kinds(events):
    return [str(event.kind) for event in events]


def test_each_outcome_is_told():
    events = []
    once = Once("memory://", namespace="billing", max_attempts=1, events=[events.append])
    once.run("k", lambda: 1)
    once.run("k", lambda: 1)
    with pytest.raises(KeyReused):
        once.run("k", lambda a: a, 1)
    with once.claim("c"), pytest.raises(Busy):
        once.run("c", lambda: 1)
    with pytest.raises(ZeroDivisionError):
        once.run("d", lambda: 1 / 0)
    with pytest.raises(Dead):
        once.run("d", lambda: 1)
    once.run("n", object)
    once.seen("s")
    once.seen("s")
    once.fresh(["s", "t"])
    assert kinds(events) == [
        "won", "finished", "replayed", "mismatch", "won", "busy", "finished", "won", "dead", "dead",
        "won", "not_replayable", "fresh", "seen", "fresh", "seen",
    ]  # fmt: skip
    assert {event.namespace for event in events} == {"billing"}


def test_an_event_names_the_function_and_never_the_key():
    events = []
    once = Once("memory://", events=[events.append])

    @once(key="order_id", name="charge")
    def charge(order_id: str) -> int:
        return 1

    charge("order-4711")
    assert [event.name for event in events] == ["charge", "charge"]
    assert all("4711" not in repr(event) for event in events)
    assert len({event.key for event in events}) == 1


def test_a_broken_listener_is_logged_and_breaks_nothing(caplog):
    def broken(event):
        raise RuntimeError("listener")

    events = []
    once = Once("memory://", events=[broken, events.append])
    assert once.run("k", lambda: 1) == 1
    assert kinds(events) == ["won", "finished"]
    assert "listener" in caplog.text


def test_a_broken_dead_letter_hook_does_not_hide_the_error(caplog):
    def broken(call):
        raise RuntimeError("hook")

    once = Once("memory://", max_attempts=1, on_dead=broken)
    with pytest.raises(ZeroDivisionError):
        once.run("k", lambda: 1 / 0)
    assert "hook" in caplog.text


async def test_an_async_dead_letter_hook_is_awaited():
    calls = []

    async def hook(call):
        calls.append(call.key)

    once = AsyncOnce("memory://", max_attempts=1, on_dead=hook)
    with pytest.raises(ZeroDivisionError):
        await once.run("k", lambda: 1 / 0)
    assert calls == ["k"]
