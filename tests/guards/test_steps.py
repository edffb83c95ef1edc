"""Steps of a guarded call: each runs once over all attempts, whatever the call comes to."""

import asyncio
import contextvars
import threading

import pytest

from dupeproof import AsyncOnce, ClaimLost, ConfigError, Done, Held, NotDone, Once, child_key, step


class Broken(Exception):
    pass


def test_a_step_that_is_done_is_replayed_in_later_attempts(durable_url):
    ran = []

    def charge(amount) -> int:
        ran.append("charge")
        return amount

    def mail() -> str:
        ran.append("mail")
        if ran.count("mail") == 1:
            raise Broken
        return "sent"

    def order(amount):
        paid = step("charge", charge, amount)
        return [paid, step("mail", mail)]

    with Once(durable_url) as once:
        with pytest.raises(Broken):
            once.run("o-1", order, 5)
        assert once.get("o-1").steps == {"charge": "done", "mail": "begun"}
        assert once.run("o-1", order, 5) == [5, "sent"]
        assert once.run("o-1", order, 5) == [5, "sent"]
        assert once.get("o-1").steps == {}
    assert ran == ["charge", "mail", "mail"]


@pytest.mark.parametrize("how", ["reopen", "settle", "abandoned"])
def test_steps_outlive_whatever_lets_the_call_run_again(durable_url, how):
    ran = []

    def order():
        step("charge", ran.append, "charge")
        if len(ran) == 1:
            ran.append("broken")
            raise Broken
        return "done"

    lookup = (lambda entry: NotDone()) if how == "settle" else None
    with Once(durable_url, hold_on=Broken, settle=lookup) as once:
        with pytest.raises(Broken):
            once.run("k", order)
        if how == "reopen":
            with pytest.raises(Held):
                once.run("k", order)
            assert once.reopen("k")
        elif how == "abandoned":
            assert once.settle(lambda entry: NotDone()).not_done == 1
        assert once.run("k", order) == "done"
    assert ran == ["charge", "broken"]


async def test_steps_that_have_run_are_noted_although_the_call_is_cancelled(durable_url):
    done = []

    async def part(number):
        done.append(number)
        if len(done) == 8:
            task.cancel()
        return number

    async def order():
        await asyncio.gather(*(step(f"part-{number}", part, number) for number in range(8)))

    async with AsyncOnce(durable_url, on_error="hold") as once:
        task = asyncio.ensure_future(once.run("k", order))
        with pytest.raises(asyncio.CancelledError):
            await task
        steps = (await once.get("k")).steps
    assert [name for name, state in steps.items() if state == "done"] == [
        f"part-{number}" for number in sorted(done)
    ]


def test_a_lookup_sees_which_steps_are_done(durable_url):
    seen = []

    def order():
        step("charge", int)
        step("mail", lambda: 1 / 0)

    def lookup(entry):
        seen.append(entry.steps)
        return Done(1)

    with Once(durable_url, on_error="hold", settle=lookup) as once:
        with pytest.raises(ZeroDivisionError):
            once.run("k", order)
        assert once.run("k", order) == 1
    assert seen == [{"charge": "done", "mail": "begun"}]


class Parcel:
    """A call whose first step leaves a doubt, and which has another step after it."""

    def __init__(self):
        self.ran = []

    def charge(self) -> str:
        self.ran.append("charge")
        raise TimeoutError

    def send(self, receipt):
        self.ran.append(f"send {receipt}")
        return "sent"

    def order(self):
        return step("send", self.send, step("charge", self.charge))


@pytest.mark.parametrize("how", ["by the next call", "by once.settle"])
def test_a_lookup_that_knows_what_a_step_gave_lets_the_rest_run(durable_url, how):
    parcel = Parcel()

    def lookup(entry, *_):
        assert entry.steps == {"charge": "begun"}
        return Done("receipt-1", step="charge")

    settle = lookup if how == "by the next call" else None
    with Once(durable_url, hold_on=(TimeoutError,), settle=settle) as once:
        with pytest.raises(TimeoutError):
            once.run("k", parcel.order)
        if settle is None:
            assert once.settle(lookup).not_done == 1
        assert [once.run("k", parcel.order) for _ in range(2)] == ["sent", "sent"]
    assert parcel.ran == ["charge", "send receipt-1"]


@pytest.mark.parametrize("named", ["send", "other"])
def test_a_lookup_that_knows_of_a_step_that_is_not_begun_changes_nothing(durable_url, named):
    parcel = Parcel()

    def lookup(entry, *_):
        return Done("receipt-1", step=named)

    with Once(durable_url, hold_on=(TimeoutError,), settle=lookup) as once:
        with pytest.raises(TimeoutError):
            once.run("k", parcel.order)
        with pytest.raises(ConfigError, match="which is not begun; begun: charge"):
            once.run("k", parcel.order)
        assert once.settle(lookup).failed == 1
        assert once.get("k").state == "held"
        assert once.get("k").steps == {"charge": "begun"}
    assert parcel.ran == ["charge"]


@pytest.mark.parametrize("value", [0, "", None, [], False, {"a": [1]}])
def test_any_stored_value_of_a_step_is_replayed(durable_url, value):
    ran = []

    def give():
        ran.append(1)
        return value

    def order(fails):
        assert step("give", give) == value
        if fails:
            raise Broken

    with Once(durable_url) as once:

        @once(key="key", fingerprint=False)
        def work(key, fails):
            order(fails)

        with pytest.raises(Broken):
            work("k", True)
        work("k", False)
    assert len(ran) == 1


def test_steps_have_names_of_their_own(durable_url):
    def order():
        step("a", int)
        step("a", int)

    with Once(durable_url) as once, pytest.raises(ConfigError, match="its own name"):
        once.run("k", order)
    for name in ("", "a/b", 7, "x" * 101):
        with Once(durable_url) as once, once.claim(f"k-{name}"[:50]) as claim:
            with pytest.raises(ConfigError, match="name of a step"):
                step(name, int)
            claim.result = 1


def test_steps_inside_a_step_do_not_meet_those_outside(durable_url):
    def inner():
        return step("a", lambda: "inner")

    def order():
        return [step("outer", inner), step("a", lambda: "outer a")]

    with Once(durable_url) as once:
        assert once.run("k", order) == ["inner", "outer a"]


def test_outside_of_a_guarded_call_there_are_no_steps():
    for ask in (lambda: step("a", int), lambda: child_key("a")):
        with pytest.raises(ConfigError, match="inside of a guarded call"):
            ask()


def test_a_thread_has_steps_only_with_the_context_of_the_call(durable_url):
    found = []

    def ask():
        try:
            found.append(step("a", lambda: "ran"))
        except ConfigError:
            found.append("no context")

    def order():
        context = contextvars.copy_context()
        for target in (ask, lambda: context.run(ask)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()

    with Once(durable_url) as once:
        once.run("k", order)
    assert found == ["no context", "ran"]


def test_a_child_key_is_the_same_in_every_attempt_and_another_for_every_call(durable_url):
    keys = []

    def order():
        keys.append((child_key("charge"), child_key("refund")))
        if len(keys) == 1:
            raise Broken

    with Once(durable_url) as once:
        with pytest.raises(Broken):
            once.run("o-1", order)
        once.run("o-1", order)
        once.run("o-2", order)
    first, again, other = keys
    assert first == again
    assert len({*first, *other}) == 4


def test_a_step_of_an_owner_that_was_replaced_does_not_begin(durable_url):
    def order():
        assert other.forget("k")
        step("charge", lambda: pytest.fail("it ran"))

    with Once(durable_url) as once, Once(durable_url) as other, pytest.raises(ClaimLost):
        once.run("k", order)


def test_items_of_a_batch_have_steps_of_their_own(durable_url):
    with Once(durable_url) as once:
        assert once.run_many(["a", "b"], lambda item: step("upper", item.upper)) == ["A", "B"]


async def test_steps_of_tasks_are_awaited_and_may_run_at_once(durable_url):
    ran = []

    async def part(number: int) -> int:
        await asyncio.sleep(0.01)
        ran.append(number)
        return number

    async def order():
        found = await asyncio.gather(*(step(f"part {number}", part, number) for number in range(5)))
        if len(ran) == 5:
            ran.append("broken")
            raise Broken
        return found

    async with AsyncOnce(durable_url) as once:
        with pytest.raises(Broken):
            await once.run("k", order)
        assert await once.run("k", order) == [0, 1, 2, 3, 4]
    assert len(ran) == 6
