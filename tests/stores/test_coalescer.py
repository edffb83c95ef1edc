"""Concurrent calls leave as batches; what happens to one caller does not happen to the others."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dupeproof.core.records import Finish
from dupeproof.errors import StoreUnavailable
from dupeproof.guards.runtime_async import insisting
from dupeproof.stores.coalescer import Coalescer
from dupeproof.stores.coalescer_async import AsyncCoalescer
from dupeproof.stores.coalescer_batch import LARGEST_BATCH, LARGEST_CALL, MOST_WAITING


class Peculiar(Exception):
    """Cannot be copied: made from one thing, telling another."""

    def __init__(self, *, code):
        super().__init__(f"code {code}")


class Tasks:
    """Sends batches when the gate is open, and remembers them."""

    def __init__(self, **options):
        self.sent = []
        self.slow = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = {}
        self.coalescer = AsyncCoalescer(self._send, **options)

    async def _send(self, items):
        self.sent.append(list(items))
        await self.gate.wait()
        if self.slow:
            await asyncio.sleep(0.001)
        for item, error in self.failing.items():  # the first of them that is there
            if item in items:
                raise error
        return [f"answer to {item}" for item in items]

    async def occupied(self, *calls):
        """The tasks of these calls, queued behind one that is under way and will be answered with the gate."""
        self.gate.clear()
        tasks = [asyncio.create_task(self.coalescer([0]))]
        tasks += [asyncio.create_task(self.coalescer(call)) for call in calls]
        await _turns_until(lambda: self.coalescer.waiting == len(calls))
        return tasks


async def _turns_until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - of the loop's turns, which is what the coalescer counts in
            await asyncio.sleep(0)


class TestTasks:
    async def test_a_lone_caller_is_sent_at_once_and_as_it_is(self):
        tasks = Tasks()
        items = [7]
        call = tasks.coalescer(items)
        with pytest.raises(StopIteration):
            call.send(None)  # over in one step: nothing was waited for
        assert tasks.sent == [[7]]

    async def test_who_comes_meanwhile_shares_the_next_batch_in_order(self):
        tasks = Tasks()
        calls = await tasks.occupied(*([n] for n in range(1, 64)))
        tasks.gate.set()
        assert await asyncio.gather(*calls) == [[f"answer to {n}"] for n in range(64)]
        assert tasks.sent == [[0], list(range(1, 64))]

    async def test_a_crowd_that_comes_back_is_gathered_again(self):
        tasks = Tasks()
        tasks.slow = True

        async def caller(n):
            for _ in range(5):
                assert await tasks.coalescer([n]) == [f"answer to {n}"]

        await asyncio.gather(*map(caller, range(20)))
        assert len(tasks.sent) <= 7
        await tasks.coalescer([1])
        await tasks.coalescer([2])
        assert tasks.sent[-2:] == [[1], [2]]

    async def test_a_failed_batch_fails_its_own_callers_each_with_its_own_error(self):
        tasks = Tasks()
        calls = await tasks.occupied([1], [2], [3])
        tasks.failing[2] = StoreUnavailable("the disk is gone")
        tasks.gate.set()
        first, *others = await asyncio.gather(*calls, return_exceptions=True)
        assert first == ["answer to 0"]
        assert [str(error) for error in others] == ["the disk is gone"] * 3
        assert len(set(map(id, others))) == 3
        assert await tasks.coalescer([4]) == ["answer to 4"]

    async def test_what_the_store_refuses_is_refused_to_the_one_who_asked(self):
        tasks = Tasks()
        calls = await tasks.occupied([1], [2], [3])
        tasks.failing[2] = StoreUnavailable("too large", refused=True)
        tasks.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [list, list, StoreUnavailable, list]
        assert answers[2].refused

    async def test_a_store_that_goes_away_after_a_refusal_is_waited_for_once(self):
        tasks = Tasks()
        calls = await tasks.occupied([1], [2], [3], [4])
        tasks.failing = {
            4: StoreUnavailable("too large", refused=True),
            2: StoreUnavailable("does not answer"),
        }
        tasks.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(answer) for answer in answers[2:]] == ["does not answer"] * 3
        assert tasks.sent == [[0], [1, 2, 3, 4], [1], [2]]

    async def test_an_unexpected_error_reaches_the_callers_and_nothing_stops(self):
        tasks = Tasks()
        calls = await tasks.occupied([1], [2])
        tasks.failing[1] = ZeroDivisionError("a bug")
        tasks.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [list, ZeroDivisionError, ZeroDivisionError]
        assert await tasks.coalescer([3]) == ["answer to 3"]

    async def test_an_error_that_cannot_be_copied_leaves_nobody_waiting(self):
        tasks = Tasks()
        calls = await tasks.occupied([1], [2])
        tasks.failing[1] = Peculiar(code=5)
        tasks.gate.set()
        async with asyncio.timeout(10):
            _, *others = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(error) for error in others] == [
            "the call that carried this one failed: Peculiar: code 5"
        ] * 2
        assert {type(error.__cause__) for error in others} == {Peculiar}

    async def test_a_cancelled_caller_that_was_not_sent_is_left_out(self):
        tasks = Tasks()
        calls = await tasks.occupied([1], [2], [3])
        calls[2].cancel()
        await asyncio.sleep(0)
        tasks.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [list, list, asyncio.CancelledError, list]
        assert tasks.sent == [[0], [1, 3]]

    @pytest.mark.parametrize("to_the_end", [False, True])
    async def test_a_cancelled_caller_in_a_batch_takes_nobody_with_it(self, to_the_end):
        tasks = Tasks(to_the_end=to_the_end)
        calls = await tasks.occupied([1], [2])
        tasks.gate.set()
        await calls[0]
        tasks.gate.clear()
        await _turns_until(lambda: len(tasks.sent) == 2)
        calls[1].cancel()
        await asyncio.sleep(0.01)
        assert calls[1].done() is not to_the_end
        tasks.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [list, asyncio.CancelledError, list]

    async def test_who_stays_to_the_end_does_so_however_often_it_is_cancelled(self):
        tasks = Tasks(to_the_end=True)
        calls = await tasks.occupied([1], [2])
        tasks.gate.set()
        await calls[0]
        tasks.gate.clear()
        await _turns_until(lambda: len(tasks.sent) == 2)
        for _ in range(3):
            calls[1].cancel()
            await asyncio.sleep(0.001)
        assert not calls[1].done()
        tasks.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [list, asyncio.CancelledError, list]

    async def test_a_cancelled_lone_caller_lets_the_others_go_on(self):
        tasks = Tasks()
        calls = await tasks.occupied([1], [2])
        calls[0].cancel()
        await asyncio.sleep(0)
        tasks.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError, list, list]

    async def test_the_queue_is_bounded(self):
        tasks = Tasks()
        calls = await tasks.occupied(*([n] for n in range(MOST_WAITING)))
        with pytest.raises(StoreUnavailable, match="cannot keep up"):
            await tasks.coalescer([1])
        tasks.gate.set()
        await asyncio.gather(*calls)
        assert max(map(len, tasks.sent)) == LARGEST_BATCH

    async def test_large_results_do_not_all_share_a_batch(self):
        tasks = Tasks()
        calls = await tasks.occupied(
            *([Finish(bytes(16), bytes(8), 1, bytes(2**22), "json")] for _ in range(5))
        )
        tasks.gate.set()
        await asyncio.gather(*calls)
        assert [len(batch) for batch in tasks.sent] == [1, 1, 1, 1, 1, 1]

    async def test_a_call_that_is_a_batch_already_goes_by_itself(self):
        tasks = Tasks()
        large = list(range(LARGEST_CALL + 1))
        calls = await tasks.occupied([1])
        by_itself = asyncio.create_task(tasks.coalescer(large))
        await asyncio.sleep(0)
        assert tasks.sent == [[0], large]
        tasks.gate.set()
        await asyncio.gather(*calls, by_itself)

    def test_a_loop_that_ends_leaves_nobody_waiting(self):
        outcomes = []

        async def stopped_early():
            tasks = Tasks()
            calls = await tasks.occupied([1], [2])
            tasks.gate.set()
            await calls[0]
            tasks.gate.clear()
            for call in calls:
                call.add_done_callback(lambda done: outcomes.append(done.cancelled() or done.exception()))

        asyncio.run(stopped_early())
        assert len(outcomes) == 3


class Threads:
    def __init__(self, **options):
        self.sent = []
        self.gate = threading.Event()
        self.gate.set()
        self.failing = {}
        self.coalescer = Coalescer(self._send, **options)
        self.pool = ThreadPoolExecutor(64)

    def _send(self, items):
        self.sent.append(list(items))
        assert self.gate.wait(10)
        for item, error in self.failing.items():  # the first of them that is there
            if item in items:
                raise error
        return [f"answer to {item}" for item in items]

    def occupied(self, *calls):
        self.gate.clear()
        futures = [self.pool.submit(self.coalescer, [0])]
        _until(lambda: self.sent)
        for number, call in enumerate(calls, 1):
            futures.append(self.pool.submit(self.coalescer, call))
            _until(lambda number=number: self.coalescer.waiting == number)
        return futures


def _until(holds):
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def _answer(future):
    try:
        return future.result(10)
    except BaseException as exc:
        return exc


class TestThreads:
    def test_a_lone_caller_is_sent_by_itself(self):
        threads = Threads()
        assert threads.coalescer([7]) == ["answer to 7"]
        assert threads.coalescer([8]) == ["answer to 8"]
        assert threads.sent == [[7], [8]]

    def test_who_comes_meanwhile_shares_the_next_batch_in_order(self):
        threads = Threads()
        futures = threads.occupied(*([n] for n in range(1, 64)))
        threads.gate.set()
        assert list(map(_answer, futures)) == [[f"answer to {n}"] for n in range(64)]
        assert threads.sent == [[0], list(range(1, 64))]
        assert threads.coalescer([64]) == ["answer to 64"]

    def test_a_failed_batch_fails_its_own_callers_each_with_its_own_error(self):
        threads = Threads()
        futures = threads.occupied([1], [2], [3])
        threads.failing[2] = StoreUnavailable("the disk is gone")
        threads.gate.set()
        first, *others = map(_answer, futures)
        assert first == ["answer to 0"]
        assert [str(error) for error in others] == ["the disk is gone"] * 3
        assert len(set(map(id, others))) == 3
        assert threads.coalescer([4]) == ["answer to 4"]

    def test_what_the_store_refuses_is_refused_to_the_one_who_asked(self):
        threads = Threads()
        futures = threads.occupied([1], [2], [3])
        threads.failing[2] = StoreUnavailable("too large", refused=True)
        threads.gate.set()
        answers = list(map(_answer, futures))
        assert [type(answer) for answer in answers] == [list, list, StoreUnavailable, list]

    def test_a_store_that_goes_away_after_a_refusal_is_waited_for_once(self):
        threads = Threads()
        futures = threads.occupied([1], [2], [3], [4])
        threads.failing = {
            4: StoreUnavailable("too large", refused=True),
            2: StoreUnavailable("does not answer"),
        }
        threads.gate.set()
        answers = list(map(_answer, futures))
        assert [str(answer) for answer in answers[2:]] == ["does not answer"] * 3
        assert threads.sent == [[0], [1, 2, 3, 4], [1], [2]]

    def test_an_error_that_cannot_be_copied_leaves_nobody_waiting(self):
        threads = Threads()
        futures = threads.occupied([1], [2])
        threads.failing[1] = Peculiar(code=5)
        threads.gate.set()
        answers = list(map(_answer, futures))
        assert [type(answer) for answer in answers] == [list, StoreUnavailable, StoreUnavailable]

    @pytest.mark.parametrize("leader", [0, 1])
    def test_a_leader_that_is_interrupted_leaves_the_others_with_an_answer(self, leader):
        threads = Threads()
        futures = threads.occupied([1], [2])
        threads.failing[leader] = KeyboardInterrupt()
        threads.gate.set()
        answers = list(map(_answer, futures))
        expected = {
            0: [KeyboardInterrupt, list, list],
            1: [list, KeyboardInterrupt, StoreUnavailable],
        }
        assert [type(answer) for answer in answers] == expected[leader]
        assert threads.coalescer([4]) == ["answer to 4"]

    def test_a_caller_interrupted_while_it_waits_takes_its_items_back(self, monkeypatch):
        threads = Threads()
        futures = threads.occupied([1])
        call = threads.coalescer._queue[0]
        wait = type(call).wait

        def interrupted(self):
            if self.items == [2]:
                raise KeyboardInterrupt
            wait(self)

        monkeypatch.setattr(type(call), "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            threads.coalescer([2])
        assert threads.coalescer.waiting == 1
        threads.gate.set()
        assert [_answer(future) for future in futures] == [["answer to 0"], ["answer to 1"]]
        assert threads.sent == [[0], [1]]

    def test_a_crowd_under_load_gets_every_answer(self):
        threads = Threads()

        def caller(n):
            return [threads.coalescer([(n, i)]) == [f"answer to {(n, i)}"] for i in range(200)]

        for answers in threads.pool.map(caller, range(32)):
            assert all(answers)
        assert sum(map(len, threads.sent)) == 32 * 200


def test_a_loop_that_ends_with_calls_under_way_ends():
    """`asyncio.run` cancels all tasks at its end: also one that was to send a batch and has not begun."""

    async def send(items):
        await asyncio.sleep(0)
        return list(items)

    async def busy(turns):
        coalescer = AsyncCoalescer(send)

        async def caller(number):
            while True:
                await insisting(coalescer, [number])
                for _ in range(3):
                    await asyncio.sleep(0)

        callers = [asyncio.create_task(caller(number)) for number in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not any(each.done() for each in callers)

    for turns in range(20, 60):
        loop = threading.Thread(target=lambda turns=turns: asyncio.run(busy(turns)), daemon=True)
        loop.start()
        loop.join(10)
        assert not loop.is_alive(), turns
