"""Cooldown: this action on this entity at most once in so long, on every store."""

import asyncio
import threading
import time

import pytest

from dupeproof import AsyncCooldown, ConfigError, Cooldown, KeyMissing


@pytest.fixture
def cooldown(any_url):
    with Cooldown(any_url) as cooldown:
        yield cooldown


def test_an_action_is_allowed_once_per_window(cooldown):
    assert cooldown.allow("user:1", "mail", within="5m") == True  # noqa: E712 - documented as True
    assert not cooldown.allow("user:1", "mail", within="5m")
    assert cooldown.allow("user:2", "mail", within="5m")
    assert cooldown.allow("user:1", "sms", within="5m")


def test_names_are_not_glued_together(cooldown):
    assert cooldown.allow("a|b", "c", within="5m")
    assert cooldown.allow("a", "b|c", within="5m")
    assert cooldown.allow("a:b", "c", within="5m")
    assert cooldown.allow("a", "b:c", within="5m")


def test_it_is_allowed_again_when_the_window_is_over(cooldown):
    assert cooldown.allow("user:1", "mail", within="80ms")
    deadline = time.monotonic() + 10
    while not cooldown.allow("user:1", "mail", within="80ms"):
        assert time.monotonic() < deadline


def test_refused_tries_do_not_lengthen_the_window(cooldown):
    start = time.monotonic()
    assert cooldown.allow("user:1", "mail", within="300ms")
    while not cooldown.allow("user:1", "mail", within="1h"):
        assert time.monotonic() - start < 10
    assert time.monotonic() - start >= 0.29


def test_data_makes_a_slot_of_its_own(cooldown):
    assert cooldown.allow("user:1", "mail", within="5m", data={"template": "welcome"})
    assert not cooldown.allow("user:1", "mail", within="5m", data={"template": "welcome"})
    assert cooldown.allow("user:1", "mail", within="5m", data={"template": "reminder"})
    assert cooldown.allow("user:1", "mail", within="5m")


def test_a_slot_can_be_cleared(cooldown):
    cooldown.allow("user:1", "mail", within="5m")
    assert cooldown.clear("user:1", "mail") is True
    assert cooldown.clear("user:1", "mail") is False
    assert cooldown.allow("user:1", "mail", within="5m")


def test_the_slot_is_given_back_when_the_action_fails(cooldown):
    with pytest.raises(OSError, match="smtp"), cooldown.allow("user:1", "mail", within="5m") as allowed:
        assert allowed
        raise OSError("smtp")
    with cooldown.allow("user:1", "mail", within="5m") as allowed:
        assert allowed
    with pytest.raises(OSError, match="other"), cooldown.allow("user:1", "mail", within="5m") as allowed:
        assert not allowed
        raise OSError("other")
    assert not cooldown.allow("user:1", "mail", within="5m"), "a loser must not give back the winner's slot"


def test_an_interrupt_does_not_give_the_slot_back(cooldown):
    with pytest.raises(KeyboardInterrupt), cooldown.allow("user:1", "mail", within="5m"):
        raise KeyboardInterrupt
    assert not cooldown.allow("user:1", "mail", within="5m")


def test_a_slot_lost_to_time_is_not_taken_from_its_new_owner(cooldown):
    late = cooldown.allow("user:1", "mail", within="50ms")
    deadline = time.monotonic() + 10
    while not cooldown.allow("user:1", "mail", within="1h"):
        assert time.monotonic() < deadline
    assert late.give_back() is False
    assert not cooldown.allow("user:1", "mail", within="1h")


def test_one_of_many_threads_is_allowed(cooldown):
    start, allowed = threading.Barrier(16), []

    def work():
        start.wait()
        allowed.append(bool(cooldown.allow("user:1", "mail", within="5m")))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 1


def test_bad_input_is_refused_before_anything_changes(cooldown):
    with pytest.raises(KeyMissing):
        cooldown.allow("", "mail", within="5m")
    with pytest.raises(KeyMissing):
        cooldown.allow("user:1", None, within="5m")
    with pytest.raises(ConfigError, match="within"):
        cooldown.allow("user:1", "mail", within="0s")
    with pytest.raises(ValueError, match="object"):
        cooldown.allow("user:1", "mail", within="5m", data=object())
    assert cooldown.allow("user:1", "mail", within="5m")


async def test_the_async_form(any_url):
    async with AsyncCooldown(any_url) as cooldown:
        assert await cooldown.allow("user:1", "mail", within="5m") is True
        assert await cooldown.allow("user:1", "mail", within="5m") is False
        assert await cooldown.clear("user:1", "mail") is True
        with pytest.raises(OSError, match="smtp"):
            async with cooldown.allow("user:1", "mail", within="5m") as allowed:
                assert allowed
                raise OSError("smtp")
        with pytest.raises(asyncio.CancelledError):
            async with cooldown.allow("user:1", "mail", within="5m") as allowed:
                assert allowed
                raise asyncio.CancelledError
        assert await cooldown.allow("user:1", "mail", within="5m") is False
        answers = await asyncio.gather(*(cooldown.allow("user:2", "mail", within="5m") for _ in range(16)))
        assert sum(answers) == 1
