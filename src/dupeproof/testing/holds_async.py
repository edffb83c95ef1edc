"""Conformance: keys that are held because their work may have happened, what is kept with a record, and how it is found."""

import pytest

from dupeproof.core import outcomes
from dupeproof.core.protocols import AsyncListable, AsyncStore, ability
from dupeproof.core.records import ClaimRequest, Listed, Terms
from dupeproof.core.states import State
from dupeproof.testing.base_async import (
    HOUR,
    SHORT,
    AsyncStoreCase,
    after,
    claim,
    fail,
    finish,
    new_key,
    new_token,
    release,
    terms,
    won,
)


async def situation(store: AsyncStore, key: bytes) -> State | None:
    [found] = await store.get([key])
    return None if found is None else found.record.situation(found.now)


class AsyncHoldCases(AsyncStoreCase):
    @pytest.mark.parametrize("promised", [terms(), terms(hold=True)])
    async def test_a_key_that_is_held_is_claimed_by_nobody(self, store: AsyncStore, promised: Terms) -> None:
        key = new_key()
        token = await won(store, key, promised)
        assert await fail(store, key, token, hold=True)
        assert await claim(store, key, new_token(), promised) == outcomes.Held(1)
        [found] = await store.get([key])
        assert found is not None
        assert (found.record.situation(found.now), found.record.error) == (State.HELD, "ValueError")

    async def test_to_hold_may_be_repeated_after_a_lost_reply(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        assert await fail(store, key, token, hold=True)
        assert await fail(store, key, token, hold=True)

    async def test_only_the_owner_can_hold_a_key(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        assert not await fail(store, key, new_token(), hold=True)
        assert await finish(store, key, token)
        assert not await fail(store, key, token, hold=True)
        assert await situation(store, key) is State.DONE

    async def test_the_owner_of_a_held_key_can_still_finish_it(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        await fail(store, key, token, hold=True)
        assert await finish(store, key, token, b"7")
        assert await claim(store, key, new_token()) == outcomes.Done(b"7", "json", 1)

    async def test_a_held_key_can_be_resolved_and_reopened(self, store: AsyncStore) -> None:
        for reopened in (False, True):
            key = new_key()
            token = await won(store, key)
            await fail(store, key, token, hold=True)
            if reopened:
                assert await release(store, key, token, reopen=True)
                assert await claim(store, key, new_token()) == outcomes.Won(1)
            else:
                assert await finish(store, key, token, b"7", resolver=new_token())
                assert await claim(store, key, new_token()) == outcomes.Done(b"7", "json", 1)

    async def test_what_was_resolved_may_be_resolved_again_until_somebody_has_it(
        self, store: AsyncStore
    ) -> None:
        key, wrong, right = new_key(), new_token(), new_token()
        token = await won(store, key)
        await fail(store, key, token, hold=True)
        assert await finish(store, key, token, b"1", resolver=wrong)
        assert await situation(store, key) is State.RESOLVED
        assert not await release(store, key, wrong, reopen=True)  # its steps may be lost by now
        assert await finish(store, key, wrong, b"2", resolver=right)
        assert not await finish(store, key, wrong, b"3", resolver=new_token())
        for _ in range(2):
            assert await claim(store, key, new_token()) == outcomes.Done(b"2", "json", 1)
        assert await situation(store, key) is State.DONE
        assert not await finish(store, key, right, b"3", resolver=new_token())

    async def test_a_claim_with_other_content_is_not_given_what_was_resolved(self, store: AsyncStore) -> None:
        key, resolver = new_key(), new_token()
        token = new_token()
        [outcome] = await store.claim([ClaimRequest(key, token, terms(), b"a" * 16)])
        assert outcome == outcomes.Won(1)
        await fail(store, key, token, hold=True)
        assert await finish(store, key, token, b"1", resolver=resolver)
        [outcome] = await store.claim([ClaimRequest(key, new_token(), terms(), b"b" * 16)])
        assert outcome == outcomes.Mismatch()
        assert await situation(store, key) is State.RESOLVED

    async def test_the_window_of_what_was_resolved_does_not_begin_anew_with_its_first_caller(
        self, store: AsyncStore
    ) -> None:
        key = new_key()
        token = await won(store, key)
        await fail(store, key, token, hold=True)
        assert await finish(store, key, token, b"1", window=SHORT * 3, resolver=new_token())
        await after(SHORT)
        assert await claim(store, key, new_token()) == outcomes.Done(b"1", "json", 1)
        [found] = await store.get([key])
        assert found is not None
        assert found.record.expires_at - found.now <= SHORT * 2

    async def test_no_window_ends_a_held_key(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key, terms(window=SHORT))
        await fail(store, key, token, window=SHORT, hold=True)
        await after(SHORT)
        assert await claim(store, key, new_token()) == outcomes.Held(1)

    async def test_a_take_over_that_is_handed_back_leaves_the_key_abandoned(self, store: AsyncStore) -> None:
        key = new_key()
        await won(store, key, terms(lease=1))
        await after(1)
        token = new_token()
        assert await claim(store, key, token) == outcomes.Won(2, took_over=True)
        assert await release(store, key, token)
        assert await situation(store, key) is State.ABANDONED
        assert await claim(store, key, new_token()) == outcomes.Won(2, took_over=True)

    async def test_a_take_over_repeated_after_a_lost_reply_is_still_one(self, store: AsyncStore) -> None:
        key = new_key()
        await won(store, key, terms(lease=1))
        await after(1)
        token = new_token()
        for _ in range(2):
            assert await claim(store, key, token) == outcomes.Won(2, took_over=True)


class AsyncListCases(AsyncStoreCase):
    @pytest.fixture
    def listable(self, store: AsyncStore) -> AsyncListable:
        found = ability(store, AsyncListable)  # type: ignore[type-abstract]
        if found is None:
            pytest.skip("this store lists nothing")
        return found

    async def test_what_a_guard_says_of_a_claim_is_kept(self, store: AsyncStore) -> None:
        key = new_key()
        promised = terms(window=12_345, name="shop.charge")
        await store.claim([ClaimRequest(key, new_token(), promised, kept_key="order:ö-1")])
        [found] = await store.get([key])
        assert found is not None
        record = found.record
        assert (record.window, record.name, record.kept_key) == (12_345, "shop.charge", "order:ö-1")
        await finish(store, key, record.token, window=12_345)
        [found] = await store.get([key])
        assert found is not None
        assert (found.record.name, found.record.kept_key) == ("shop.charge", "order:ö-1")

    async def test_what_waits_for_somebody_is_listed(
        self, store: AsyncStore, listable: AsyncListable
    ) -> None:
        held, abandoned, dead, running, plain = (new_key() for _ in range(5))
        await fail(store, held, await won(store, held, terms(name="f")), hold=True)
        await won(store, abandoned, terms(lease=1, hold=True))
        await fail(store, dead, await won(store, dead), dead=True)
        await won(store, running, terms(hold=True))
        await won(store, plain)
        await after(1)
        found = await waiting(listable)
        states = {each.key: each.record.situation(each.now) for each in found}
        assert states[held] == states[abandoned] == State.HELD
        assert states[dead] is State.DEAD
        assert states[running] is State.RUNNING
        assert plain not in states
        [entry] = [each for each in found if each.key == held]
        assert (entry.record.name, entry.record.error) == ("f", "ValueError")

    async def test_what_waits_no_longer_is_not_listed(
        self, store: AsyncStore, listable: AsyncListable
    ) -> None:
        ended: list[bytes] = []
        for how in ("finish", "fail", "resolve", "reopen", "release", "forget"):
            key = new_key()
            token = await won(store, key, terms(hold=True))
            if how in ("resolve", "reopen"):
                await fail(store, key, token, hold=True)
            match how:
                case "finish":
                    assert await finish(store, key, token)
                case "fail":
                    assert await fail(store, key, token)
                case "resolve":
                    assert await finish(store, key, token, resolver=new_token())
                case "reopen" | "release":
                    assert await release(store, key, token, reopen=how == "reopen")
                case _:
                    assert await store.forget([key]) == [True]
            ended.append(key)
        assert not {each.key for each in await waiting(listable)} & {*ended}

    async def test_a_key_that_was_dead_is_listed_until_it_is_resolved(
        self, store: AsyncStore, listable: AsyncListable
    ) -> None:
        key = new_key()
        token = await won(store, key)
        await fail(store, key, token, dead=True)
        assert key in {each.key for each in await waiting(listable)}
        assert await finish(store, key, token, resolver=new_token())
        assert key not in {each.key for each in await waiting(listable)}

    async def test_all_records_are_listed_and_no_result_with_them(
        self, store: AsyncStore, listable: AsyncListable
    ) -> None:
        keys = [new_key() for _ in range(30)]
        for key in keys:
            await finish(store, key, await won(store, key), b"secret", window=HOUR)
        found: dict[bytes, Listed] = {}
        async for page in listable.records():
            found |= {each.key: each for each in page}
        assert {*keys} <= {*found}
        assert {found[key].record.result for key in keys} == {b""}

    async def test_a_sample_says_which_part_of_all_it_is(
        self, store: AsyncStore, listable: AsyncListable
    ) -> None:
        keys = [new_key() for _ in range(30)]
        for key in keys:
            await finish(store, key, await won(store, key), b"secret", window=HOUR)
        everything = await listable.sample(1_000_000)
        assert everything.share == 1.0
        assert {*keys} <= {each.key for each in everything.records}
        assert {each.record.result for each in everything.records} == {b""}
        assert 0 < (await listable.sample(10)).share <= 1


async def waiting(listable: AsyncListable) -> list[Listed]:
    return await listable.waiting(1_000_000)
