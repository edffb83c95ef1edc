"""Run once, replay after: decorator, function and inline forms, on every store."""

import asyncio

import pytest

from dupeproof import AsyncOnce, Busy, Dead, KeyReused, Once


@pytest.fixture
def once(any_url):
    with Once(any_url, namespace="billing", lease="30s") as once:
        yield once


def test_a_decorated_function_runs_once_per_key(once):
    runs = []

    @once(key="order_id")
    def charge(order_id: str, amount: int) -> str:
        runs.append(order_id)
        return f"{order_id}={amount}"

    assert charge("o-1", 500) == "o-1=500"
    assert charge(order_id="o-1", amount=500) == "o-1=500"
    assert charge("o-2", 500) == "o-2=500"
    assert runs == ["o-1", "o-2"]


def test_the_same_key_with_other_arguments_is_refused(once):
    @once(key="order_id")
    def charge(order_id: str, amount: int) -> int:
        return amount

    charge("o-1", 500)
    with pytest.raises(KeyReused, match="other content") as caught:
        charge("o-1", 900)
    assert "o-1" not in str(caught.value)
    assert charge("o-1", 500) == 500


def test_the_key_of_a_call_can_be_had_and_used(once):
    @once(key="order_id", name="charge")
    def charge(order_id: str, amount: int) -> int:
        return amount

    charge("o-1", 500)
    key = charge.key_for("o-1", 500)
    assert key == "charge:o-1"
    entry = once.get(key)
    assert (entry.state, entry.result, entry.attempts) == ("done", 500, 1)
    assert once.forget(key) is True
    assert charge("o-1", 900) == 900


def test_two_functions_do_not_share_keys_unless_they_share_a_name(once):
    @once(key="x")
    def one(x: int) -> str:
        return "one"

    @once(key="x")
    def two(x: int) -> str:
        return "two"

    @once(key="x", name="shared")
    def three(x: int) -> str:
        return "three"

    @once(key="x", name="shared")
    def four(x: int) -> str:
        return "four"

    assert [one(1), two(1), three(1), four(1)] == ["one", "two", "three", "three"]


def test_chosen_fields_are_compared_or_none(once):
    @once(key="order_id", fingerprint=["amount"])
    def charge(order_id: str, amount: int, trace: object) -> int:
        return amount

    @once(key="order_id", fingerprint=False)
    def ship(order_id: str, how: object) -> str:
        return "shipped"

    assert charge("o-1", 500, object()) == 500
    assert charge("o-1", 500, object()) == 500
    with pytest.raises(KeyReused):
        charge("o-1", 900, None)
    assert ship("o-1", object()) == ship("o-1", "by sea") == "shipped"


def test_methods_are_guarded_without_their_self(once):
    class Shop:
        @once(key="order_id")
        def pay(self, order_id: str) -> str:
            return f"paid {order_id}"

    assert Shop().pay("o-1") == Shop().pay("o-1") == "paid o-1"


def test_the_function_form_runs_once(once):
    runs = []

    def work(n: int, *, extra: int = 0) -> int:
        runs.append(n)
        return n + extra

    assert once.run("k", work, 1, extra=2) == 3
    assert once.run("k", work, 1, extra=2) == 3
    with pytest.raises(KeyReused):
        once.run("k", work, 2)
    assert runs == [1]


def test_an_attempt_tells_whether_it_is_a_replay(once):
    first = once.attempt("k", lambda: "v")
    second = once.attempt("k", lambda: "other")
    assert (first.value, first.replayed, first.attempt) == ("v", False, 1)
    assert (second.value, second.replayed, second.attempt) == ("v", True, 1)


def test_the_inline_form(once):
    with once.claim("mail:42", fingerprint={"to": "a"}) as claim:
        assert claim.won
        assert not claim.done
        claim.result = {"sent": True}
    with once.claim("mail:42", fingerprint={"to": "a"}) as claim:
        assert not claim.won
        assert claim.done
        assert claim.result == {"sent": True}
    with pytest.raises(KeyReused), once.claim("mail:42", fingerprint={"to": "b"}):
        pytest.fail("the block must not be entered")


def test_a_busy_key_raises_busy_with_a_hint(once):
    with once.claim("k") as claim:
        assert claim.won
        with pytest.raises(Busy) as caught, once.claim("k"):
            pytest.fail("the block must not be entered")
        assert 0 < caught.value.retry_after <= 30
        with pytest.raises(Busy):
            once.run("k", lambda: 1)


def test_a_failed_run_may_run_again(once):
    attempts = []

    def flaky() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError("down")
        return "up"

    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            once.run("k", flaky)
    outcome = once.attempt("k", flaky)
    assert (outcome.value, outcome.attempt, outcome.replayed) == ("up", 3, False)
    assert once.attempt("k", flaky).replayed


def test_after_the_last_attempt_the_key_is_dead_and_the_hook_told_once(any_url):
    dead = []
    with Once(any_url, namespace="billing", max_attempts=2, on_dead=dead.append) as once:

        def broken() -> str:
            raise ValueError("always")

        for _ in range(2):
            with pytest.raises(ValueError, match="always"):
                once.run("k", broken)
        for _ in range(2):
            with pytest.raises(Dead, match="2 attempts"):
                once.run("k", broken)
        [call] = dead
        assert (call.key, call.namespace, call.attempt) == ("k", "billing", 2)
        assert isinstance(call.error, ValueError)
        assert once.get("k").state == "dead"
        assert once.get("k").error == "ValueError"
        assert once.resolve("k", result="by hand") is True
        assert once.run("k", broken) == "by hand"


def test_a_key_being_worked_on_cannot_be_resolved(once):
    with once.claim("k") as claim, pytest.raises(Busy):
        once.resolve("k", result=1)
    assert claim.won
    assert once.resolve("k", result=1) is False
    assert once.resolve("unknown", result=1) is False


def test_a_released_claim_can_be_made_again(once):
    with once.claim("k") as claim:
        assert claim.release() is True
    assert once.get("k") is None
    assert once.attempt("k", lambda: 1).attempt == 1


def test_the_window_can_be_set_per_function(any_url):
    with Once(any_url, window="1h") as once:

        @once(key="x", window="40ms")
        def brief(x: int) -> int:
            return x

        brief(1)
        left = once.get(brief.key_for(1))
        assert left is None or (left.expires_at - left.finished_at).total_seconds() == pytest.approx(
            0.04, abs=0.01
        )


async def test_the_async_forms(any_url):
    async with AsyncOnce(any_url, namespace="billing") as once:
        runs = []

        @once(key="order_id")
        async def charge(order_id: str, amount: int) -> int:
            runs.append(order_id)
            await asyncio.sleep(0)
            return amount

        assert await charge("o-1", 500) == await charge("o-1", 500) == 500
        with pytest.raises(KeyReused):
            await charge("o-1", 900)
        assert runs == ["o-1"]
        assert (await once.get(charge.key_for("o-1", 500))).result == 500
        assert await once.run("k", asyncio.sleep, 0, "slept") == "slept"
        assert (await once.attempt("k", asyncio.sleep, 0, "slept")).replayed
        async with once.claim("c") as claim:
            claim.result = [1]
            with pytest.raises(Busy):
                await once.run("c", asyncio.sleep, 0)
        async with once.claim("c") as claim:
            assert claim.result == [1]
        with pytest.raises(ZeroDivisionError):
            await once.run("z", _divide, 1, 0)
        assert (await once.get("z")).state == "failed"


async def _divide(a: int, b: int) -> float:
    return a / b


async def test_an_async_guard_may_be_built_outside_a_loop():
    once = await asyncio.to_thread(AsyncOnce, "memory://")
    assert await once.run("k", asyncio.sleep, 0, 5) == 5
