"""Work that may have happened: errors that hold a key, lookups that settle it, and lists of what waits."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from dupeproof import (
    AsyncOnce,
    Busy,
    ConfigError,
    Dead,
    Done,
    Held,
    KeyInvalid,
    NotDone,
    Once,
    StoreUnavailable,
    Unknown,
)
from dupeproof.testing import Crashed, crash_at


class Timeout(Exception):
    """Of a provider: it may have done what it was asked."""


class Declined(Exception):
    """It has not."""


def raises(error):
    def work(*_args):
        raise error

    return work


# Errors that leave a doubt


def test_by_default_an_error_reopens_the_key(durable_url):
    with Once(durable_url) as once:
        with pytest.raises(Timeout):
            once.run("k", raises(Timeout()))
        assert once.run("k", lambda: 7) == 7


def test_with_on_error_hold_every_error_holds_the_key(durable_url):
    with Once(durable_url, on_error="hold") as once:
        with pytest.raises(Declined):
            once.run("k", raises(Declined()))
        with pytest.raises(Held):
            once.run("k", lambda: 7)
        entry = once.get("k")
        assert (entry.state, entry.error, entry.attempts) == ("held", "Declined", 1)


def test_hold_on_holds_these_errors_and_reopens_on_others(durable_url):
    with Once(durable_url, hold_on=(Timeout,)) as once:
        for error, state in [(Declined(), "failed"), (Timeout(), "held")]:
            with pytest.raises(type(error)):
                once.run("k", raises(error))
            assert once.get("k").state == state


def test_a_function_may_choose_for_itself(durable_url):
    with Once(durable_url, on_error="hold") as once:

        @once(key="order", on_error="reopen", name="mail")
        def mail(order):
            raise Timeout

        @once(key="order", hold_on=Timeout, name="charge")
        def charge(order):
            raise Timeout

        for function, state in [(mail, "failed"), (charge, "held")]:
            with pytest.raises(Timeout):
                function("o-1")
            assert once.get(function.key_for("o-1")).state == state


def test_a_gateway_that_times_out_is_called_once(durable_url):
    calls = []

    def pay():
        calls.append(1)
        raise Timeout

    with Once(durable_url, on_abandoned="hold", hold_on=Timeout) as once:
        for error in (Timeout, Held, Held):
            with pytest.raises(error):
                once.run("pay:o-1", pay)
    assert len(calls) == 1


async def test_a_cancelled_call_is_held_at_once_where_every_error_holds(durable_url):
    async with AsyncOnce(durable_url, on_error="hold") as once:
        began = asyncio.Event()

        async def work():
            began.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(once.run("k", work))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await once.get("k")).state == "held"


def test_the_inline_form_holds_with_a_reason(durable_url):
    with Once(durable_url) as once:
        with once.claim("k") as claim:
            claim.hold(reason="no answer from the bank")
        entry = once.get("k")
        assert (entry.state, entry.error) == ("held", "no answer from the bank")
        with pytest.raises(ConfigError):
            claim.hold()


def test_a_held_key_in_a_batch_is_an_error_of_its_item(durable_url):
    with Once(durable_url, hold_on=Timeout) as once:
        with pytest.raises(Timeout):
            once.run("a", raises(Timeout()), "a")
        results = once.attempt_many(["a", "b"], str.upper)
        assert isinstance(results[0].error, Held)
        assert results[1].value == "B"


@pytest.mark.parametrize(
    "options",
    [
        {"on_error": "ignore"},
        {"on_error": "hold", "hold_on": Timeout},
        {"hold_on": "Timeout"},
        {"hold_on": (Timeout(),)},
        {"settle": 7},
        {"settle": lambda: None},
    ],
)
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ConfigError):
        Once("memory://", **options)


def test_a_lookup_that_could_not_take_the_call_is_refused_when_decorating():
    once = Once("memory://")
    with pytest.raises(ConfigError, match="must take the entry"):

        @once(key="order", settle=lambda entry: Unknown())
        def charge(order, amount):
            return amount


async def test_an_async_lookup_needs_the_async_guard():
    async def lookup(entry):
        return Unknown()

    with pytest.raises(ConfigError, match="async"):
        Once("memory://", settle=lookup)


# Asking the other side


def held(once, key="k", *args):
    with pytest.raises(Timeout):
        once.run(key, raises(Timeout()), *args)


@pytest.mark.parametrize(
    ("answer", "value", "ran"), [(Done(7), 7, 0), (Done(None), None, 0), (NotDone(), "ran", 1)]
)
def test_a_held_key_is_settled_by_what_the_lookup_says(durable_url, answer, value, ran):
    runs, asked = [], []

    def lookup(entry, *args):
        asked.append((entry.state, entry.error, args))
        return answer

    def work(order):
        runs.append(order)
        return "ran"

    with Once(durable_url, hold_on=Timeout, settle=lookup) as once:
        held(once, "k", "o-1")
        assert once.run("k", work, "o-1") == value
        assert once.run("k", work, "o-1") == value
        assert once.get("k").state == "done"
    assert (len(runs), asked) == (ran, [("held", "Timeout", ("o-1",))])


def test_what_the_lookup_does_not_know_stays_held(durable_url):
    with Once(durable_url, hold_on=Timeout, settle=lambda entry, *args: Unknown()) as once:
        held(once)
        for _ in range(2):
            with pytest.raises(Held):
                once.run("k", lambda: 7)
        assert (once.get("k").state, once.get("k").error) == ("held", "Timeout")


def test_a_lookup_that_raises_leaves_the_key_held(durable_url):
    def lookup(entry):
        raise ConnectionError("no route")

    with Once(durable_url, hold_on=Timeout, settle=lookup) as once:
        held(once)
        with pytest.raises(Held, match="ConnectionError") as caught:
            once.run("k", lambda: 7)
        assert isinstance(caught.value.__cause__, ConnectionError)
        assert once.get("k").state == "held"


def test_a_key_is_held_since_its_error_however_often_a_lookup_is_asked(durable_url):
    """Else a lookup that waits until a payment is too old to come could wait for ever."""
    seen, said = [], [Unknown(), RuntimeError("away"), Unknown()]

    def lookup(entry, *_):
        seen.append(entry.since)
        answer = said[len(seen) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    with Once(durable_url, hold_on=Timeout, settle=lookup) as once:
        held(once)
        first = once.get("k").since
        for _ in said[:2]:
            time.sleep(0.05)
            with pytest.raises(Held) as caught:
                once.run("k", int)
            assert caught.value.asked
        time.sleep(0.05)
        assert once.settle(lookup).unknown == 1
        assert [*seen, once.get("k").since] == [first] * 4


def test_an_abandoned_key_is_taken_for_the_youngest_it_can_be(durable_url):
    """Its first attempt may be long over, and another one have left the doubt."""
    ages = []

    def lookup(entry, *_):
        ages.append(datetime.now(UTC) - entry.since)
        return NotDone()

    with Once(durable_url, lease="100ms", settle=lookup, on_busy="wait") as once:
        with once.claim("k") as claim:
            claim.fail(ValueError())
        time.sleep(1.2)
        with pytest.raises(Crashed), crash_at("after-claim"):
            once.run("k", int)
        assert once.run("k", int) == 0
    assert timedelta(seconds=-0.5) < ages[0] < timedelta(seconds=1)


AWAY = ConnectionError("no route")


@pytest.mark.parametrize(
    ("said", "state"),
    [([Done("paid")], "done"), ([NotDone()], "dead"), ([Unknown(), AWAY, Done("paid")], "done")],
)
def test_a_last_attempt_that_vanished_is_asked_about_before_its_key_is_given_up(durable_url, said, state):
    asked, dead = [], []

    def lookup(entry, *_):
        asked.append(entry.state)
        answer = said[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    options = {"max_attempts": 1, "settle": lookup, "on_dead": dead.append}
    with Once(durable_url, lease="100ms", on_busy="wait", wait="20s", **options) as once:
        with pytest.raises(Crashed), crash_at("after-claim"):
            once.run("k", int)
        for _ in said[:-1]:
            with pytest.raises(Held):
                once.run("k", int)
        for _ in range(2):
            if state == "done":
                assert once.run("k", int) == "paid"
            else:
                with pytest.raises(Dead):
                    once.run("k", int)
        assert once.get("k").state == state
    assert asked == ["abandoned", "held", "held"][: len(said)]
    assert len(dead) == (state == "dead")


def test_an_attempt_that_was_not_done_counts(durable_url):
    """So that a lookup, or max_attempts, can give up."""
    ran, attempts, dead = [], [], []

    def lookup(entry, *_):
        attempts.append(entry.attempts)
        return NotDone()

    def work():
        ran.append(1)
        raise Timeout

    options = {"max_attempts": 3, "settle": lookup, "on_dead": dead.append}
    with Once(durable_url, hold_on=Timeout, **options) as once:
        for _ in range(3):
            with pytest.raises(Timeout):
                once.run("k", work)
        for _ in range(2):
            with pytest.raises(Dead, match="attempts"):
                once.run("k", work)
    assert (len(ran), attempts, len(dead)) == (3, [1, 2, 3], 1)


def test_settle_asks_about_a_key_as_it_is_by_then(durable_url):
    """Another one's lookup may take long, and the key be run and held anew meanwhile."""
    seen = {}

    def lookup(entry):
        seen[entry.key] = entry
        if len(seen) == 1:
            assert once.reopen("b")
            held(once, "b")
        return Unknown()

    with Once(durable_url, hold_on=Timeout, keep_keys=True) as once:
        held(once, "a")
        time.sleep(0.05)
        held(once, "b")
        before = once.get("b").since
        time.sleep(0.05)
        assert once.settle(lookup).unknown == 2
        assert seen["b"].since > before


def test_a_failure_of_the_store_while_settling_leaves_no_claim_that_is_renewed(durable_url, monkeypatch):
    with Once(durable_url, lease="300ms", settle=lambda *_: NotDone()) as once:
        with pytest.raises(Crashed), crash_at("after-claim"):
            once.run("k", int)
        until = time.monotonic() + 20
        while once.get("k").state != "abandoned" and time.monotonic() < until:
            time.sleep(0.02)
        monkeypatch.setattr(once._engine.store, "renew", unavailable)
        with pytest.raises(StoreUnavailable) as caught:
            once.run("k", int)
        monkeypatch.undo()
        assert caught.value  # kept, as an error tracker does
        while once.get("k").state != "abandoned":
            assert time.monotonic() < until
            time.sleep(0.02)
        assert once.run("k", int) == 0


def unavailable(*_):
    raise StoreUnavailable("away")


def test_the_same_held_key_twice_in_a_batch_is_settled_once(durable_url):
    with Once(durable_url, hold_on=Timeout, settle=lambda *_: NotDone()) as once:
        [result] = once.attempt_many(["k"], raises(Timeout()))
        assert isinstance(result.error, Timeout)
        assert once.run_many(["k", "k"], len) == [1, 1]


def test_what_is_raised_because_of_a_doubt_leaves_one(durable_url):
    class Failed(Exception):
        pass

    def wrapped():
        try:
            raise Timeout
        except Timeout as exc:
            raise Failed from exc

    def handled():
        try:
            raise Timeout
        except Timeout:
            raise Failed from None

    with Once(durable_url, hold_on=Timeout) as once:
        for key, work, state in (("a", wrapped, "held"), ("b", handled, "failed")):
            with pytest.raises(Failed):
                once.run(key, work)
            assert once.get(key).state == state


def test_a_lookup_that_gives_something_else_is_told_so_and_leaves_the_key_held(durable_url):
    with Once(durable_url, hold_on=Timeout, settle=lambda entry: True) as once:
        held(once)
        with pytest.raises(ConfigError, match="Done"):
            once.run("k", lambda: 7)
        assert once.get("k").state == "held"


def test_an_abandoned_key_is_asked_about_before_it_runs_again(durable_url):
    asked = []

    def lookup(entry, *args):
        asked.append(entry.state)
        return Done("paid")

    with Once(durable_url, lease="100ms", on_busy="wait", wait="20s", settle=lookup) as once:
        with pytest.raises(Crashed), crash_at("after-claim"):
            once.run("k", lambda: 1)
        assert once.run("k", lambda: 2) == "paid"
    assert asked == ["abandoned"]


def test_two_callers_never_ask_and_run_at_once(durable_url):
    inside, most, runs = [], [], []

    def lookup(entry):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        return NotDone()

    def work():
        runs.append(1)
        time.sleep(0.05)
        return len(runs)

    with Once(durable_url, hold_on=Timeout, settle=lookup, on_busy="wait", wait="30s") as once:
        held(once)
        values = []
        threads = [threading.Thread(target=lambda: values.append(once.run("k", work))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (values, len(runs), max(most), len(most)) == ([1] * 8, 1, 1, 1)


async def test_an_async_lookup_is_awaited(durable_url):
    async def lookup(entry, order):
        await asyncio.sleep(0)
        return Done(order)

    async def pay(order):
        raise Timeout

    async with AsyncOnce(durable_url, hold_on=Timeout, settle=lookup) as once:
        with pytest.raises(Timeout):
            await once.run("k", pay, "o-1")
        assert await once.run("k", pay, "o-1") == "o-1"


def test_a_settled_key_is_asked_about_in_a_batch_too(durable_url):
    with Once(durable_url, hold_on=Timeout, settle=lambda entry, item: Done(item * 2)) as once:
        held(once, "a", "a")
        assert once.run_many(["a", "b"], lambda item: item) == ["aa", "b"]


def test_settle_goes_through_all_held_keys(durable_url):
    answers = {"done": Done(7), "not": NotDone(), "unknown": Unknown()}

    def lookup(entry):
        return answers[entry.key] if entry.key != "broken" else 1 / 0

    with Once(durable_url, hold_on=Timeout, keep_keys=True, namespace=f"n{time.time_ns()}") as once:
        for key in ("done", "not", "unknown", "broken"):
            held(once, key)
        settled = once.settle(lookup)
        assert (settled.done, settled.not_done, settled.unknown, settled.failed) == (1, 1, 1, 1)
        assert once.run("done", lambda: 0) == 7
        assert once.run("not", lambda: 1) == 1
        assert sorted(entry.key for entry in once.entries("held")) == ["broken", "unknown"]


def test_a_key_that_is_settled_keeps_the_window_of_its_guard(durable_url):
    with Once(durable_url, hold_on=Timeout, window="7d", namespace="w") as once:
        held(once)
    with Once(durable_url, window="1s", namespace="w") as other:
        assert other.resolve("k", result=1)
        entry = other.get("k")
        assert (entry.expires_at - entry.finished_at).days >= 6


# Finding them


def test_entries_show_what_a_person_needs(durable_url):
    with Once(durable_url, namespace=f"n{time.time_ns()}", keep_keys=True, hold_on=Timeout) as once:

        @once(key="order", name="charge")
        def charge(order):
            raise Timeout

        for order in ("o-1", "o-2"):
            with pytest.raises(Timeout):
                charge(order)
            time.sleep(0.01)  # the order of what is held in the same millisecond is that of the digests
        first, second = once.entries("held")
        assert (first.key, first.name, first.error, first.attempts) == ("charge:o-1", "charge", "Timeout", 1)
        assert first.since <= second.since
        assert [entry.key for entry in once.entries("held", after=first)] == ["charge:o-2"]
        assert [entry.key for entry in once.entries("held", newest_first=True, limit=1)] == ["charge:o-2"]
        assert list(once.entries("dead")) == []


def test_a_few_of_many_are_the_oldest_or_the_newest(any_url):
    with Once(any_url, namespace="many") as once:
        for number in range(3):
            if number:
                time.sleep(0.01)
            results = once.attempt_many(range(700 * number, 700 * (number + 1)), raises(Timeout()))
            assert all(result.error is not None for result in results)

        def listed(**options):
            return [entry.digest for entry in once.entries("failed", **options)]

        entries = list(once.entries("failed", limit=None))
        everything = [entry.digest for entry in entries]
        assert len(everything) == 2_100
        assert listed(limit=5) == everything[:5]
        assert listed(limit=5, newest_first=True) == everything[:-6:-1]
        assert listed(limit=5, after=entries[1_500]) == everything[1_501:1_506]


def test_keys_are_not_kept_unless_asked_for(durable_url):
    with Once(durable_url, namespace=f"n{time.time_ns()}", hold_on=Timeout) as once:
        held(once, "card:4242")
        [entry] = once.entries("held")
        assert entry.key is None
        assert entry.digest == once.get("card:4242").digest


@pytest.mark.parametrize("state", ["failed", "running", "abandoned", "dead"])
def test_entries_of_every_state_are_found(durable_url, state):
    with Once(durable_url, namespace=f"n{time.time_ns()}", keep_keys=True, lease="60s") as once:
        looked_at = []
        if state == "failed":
            with pytest.raises(Declined):
                once.run("k", raises(Declined()))
        elif state == "dead":
            with Once(durable_url, namespace=once.namespace, keep_keys=True, max_attempts=1) as strict:
                with pytest.raises(Declined):
                    strict.run("k", raises(Declined()))
        else:
            lease = "60s" if state == "running" else "50ms"
            with Once(durable_url, namespace=once.namespace, keep_keys=True, lease=lease) as other:
                with pytest.raises(Crashed), crash_at("after-claim"):
                    other.run("k", int)
            while once.get("k").state != state:
                time.sleep(0.01)
        [entry] = once.entries(state, progress=looked_at.append)
        assert (entry.key, entry.state) == ("k", state)
        assert bool(looked_at) == (state != "dead")


def test_digits_of_a_digest_find_a_key_whatever_its_namespace(durable_url):
    with Once(durable_url, namespace=f"n{time.time_ns()}", hold_on=Timeout) as once:
        held(once)
        digest = once.get("k").digest
        with Once(durable_url) as other:
            [entry] = other.find(digest[:8])
            assert (entry.digest, entry.namespace) == (digest, once.namespace)
            assert other.resolve(entry, result=3)
        assert once.run("k", int) == 3
        for wrong in ("123", "not hex!", digest + "0", 7):
            with pytest.raises(KeyInvalid):
                once.find(wrong)


@pytest.mark.parametrize("options", [{"state": "done"}, {"limit": 0}, {"after": "x"}])
def test_a_list_of_nothing_sensible_is_refused_before_it_is_read(options):
    with pytest.raises(ConfigError):
        Once("memory://").entries(**options)


def test_the_error_of_a_held_key_shows_the_digits_that_find_it(durable_url):
    with Once(durable_url, hold_on=Timeout) as once:
        held(once)
        with pytest.raises(Held) as caught:
            once.run("k", int)
        assert once.get("k").digest[:8] in str(caught.value)


def test_a_busy_key_is_not_resolved(durable_url):
    with Once(durable_url) as once, once.claim("k"), pytest.raises(Busy):
        once.resolve("k", result=1)


# What a doubt must survive


def test_a_group_of_errors_holds_if_one_of_them_does(durable_url):
    with Once(durable_url, hold_on=Timeout) as once:
        with pytest.raises(ExceptionGroup):
            once.run("k", raises(ExceptionGroup("two", [Declined(), ExceptionGroup("inner", [Timeout()])])))
        assert once.get("k").state == "held"


@pytest.mark.parametrize("reason", ["nul \0 inside", "half \ud800 of a pair", "x" * 500])
def test_any_text_is_a_reason(durable_url, reason):
    with Once(durable_url) as once:
        with once.claim("k") as claim:
            claim.hold(reason=reason)
        assert once.get("k").state == "held"
        assert len(once.get("k").error) <= 200


def test_settling_keeps_the_window_of_the_guard_that_claimed(durable_url):
    namespace = f"n{time.time_ns()}"
    with Once(durable_url, namespace=namespace, hold_on=Timeout, window="30d") as once:
        held(once)
    with Once(durable_url, namespace=namespace, window="1s") as other:
        assert other.settle(lambda entry: Unknown()).unknown == 1
        assert other.settle(lambda entry: Done(1)).done == 1
        entry = other.get("k")
        assert (entry.expires_at - entry.finished_at).days >= 29


def test_who_lost_the_key_while_asking_does_not_run(durable_url):
    ran = []
    with Once(durable_url, hold_on=Timeout, lease="60s", namespace=f"n{time.time_ns()}") as once:
        held(once)

        def lookup(entry):
            once.forget("k")
            assert once.run("k", lambda: "the other") == "the other"
            return NotDone()

        with Once(durable_url, settle=lookup, namespace=once.namespace) as slow:
            assert slow.run("k", lambda: ran.append(1)) == "the other"
    assert ran == []


async def test_a_batch_that_is_cancelled_leaves_held_keys_held(durable_url):
    asked = asyncio.Event()

    async def lookup(entry, item):
        if item == "a":
            return Unknown()
        asked.set()
        await asyncio.sleep(60)
        return Unknown()

    async def fail(item):
        raise Timeout

    async with AsyncOnce(durable_url, hold_on=Timeout, settle=lookup, namespace=f"n{time.time_ns()}") as once:
        for item in ("a", "b", "c"):
            with pytest.raises(Timeout):
                await once.run(item, fail, item)
        task = asyncio.create_task(once.run_many(["new", "a", "b", "c"], fail))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [(await once.get(item)).state for item in ("a", "b", "c")] == ["held"] * 3
        assert await once.get("new") is None


def test_a_waiter_hears_of_a_key_that_is_held():
    once = Once("memory://", on_busy="wait", wait="30s", lease="30s")
    heard = []

    def wait():
        began = time.monotonic()
        with pytest.raises(Held):
            once.run("k", int)
        heard.append(time.monotonic() - began)

    with once.claim("k") as claim:
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.2)
        claim.hold()
    thread.join()
    assert heard[0] < 10
