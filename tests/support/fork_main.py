"""The program of a family: a process that uses a guard, forks, and goes on using it together with its children.

    fork_main.py STORY URL LEDGER [bare]

With `bare` the children are forked as uWSGI does it: in C, so that none of Python's hooks is called.

Every run of a key is a line in the ledger; what is said at the end is one JSON object on stdout.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import json
import os
import sys
import threading
import time
from pathlib import Path

from dupeproof import AsyncOnce, ClaimLost, Once

CHILDREN = 4
KEYS = [f"key-{number}" for number in range(25)]


def note(key: str) -> str:
    with Path(sys.argv[3]).open("ab", buffering=0) as ledger:
        ledger.write(key.encode() + b"\n")
    return f"value of {key}"


def bare_fork() -> int:
    """When no other thread wants the interpreter. One that waits for it is on a list which only Python's hooks clear: the child,
    where that thread is not, would wait for it for ever, whatever library it uses.
    """
    before = None
    while (now := other_threads()) != before or any("State:\tS" not in each for each in now):
        before = now
        time.sleep(0.01)  # without the interpreter: whoever wants it has it now, and is seen to run
    return ctypes.PyDLL(None).fork()


def other_threads() -> list[str]:
    """What each is doing, and how often it was put to sleep and woken up."""
    seen = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            lines = (task / "status").read_text().splitlines()
            seen.append(
                "\n".join(line for line in lines if line.startswith(("Pid", "State", "vol", "nonvol")))
            )
    own = f"Pid:\t{threading.get_native_id()}\n"
    return [each for each in seen if own not in each + "\n"]


def fork(work) -> int:
    pid = bare_fork() if sys.argv[4:] == ["bare"] else os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def ended_well(pids: list[int]) -> bool:
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    return not any(statuses)


def race(once: Once) -> None:
    for key in KEYS:
        assert once.run(key, note, key) == f"value of {key}"


def together(url: str) -> dict:
    """Parent and children race down the same keys, on what was one connection."""
    with Once(url, on_busy="wait", lease="10s") as once:
        once.run("before", note, "before")
        children = [fork(lambda: race(once)) for _ in range(CHILDREN)]
        race(once)
        fine = ended_well(children)
        return {"fine": fine, "replayed": once.attempt("before", note, "before").replayed}


def amid_threads(url: str) -> dict:
    """Children come into being while threads of the parent are in the middle of calls."""
    stop = threading.Event()
    failures = []

    def keep_busy(name: str) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            try:
                once.run(f"{name}-{turn}", int)
            except BaseException as error:
                failures.append(repr(error))

    with Once(url, on_busy="wait", lease="10s") as once:
        once.run(
            "before", int
        )  # the drivers import parts of themselves late, and Python's import lock is not fork-safe
        threads = [threading.Thread(target=keep_busy, args=(name,)) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        fine = []
        for number in range(12):
            key = f"child-{number}"
            child = fork(lambda key=key: in_time(lambda: once.seen(key) or note(key)))
            fine.append(ended_well([child]))
        stop.set()
        for thread in threads:
            thread.join()
    return {"fine": all(fine), "failures": failures}


def orphan(url: str) -> dict:
    """The parent closes its guard; what the child stores after that must be there for everyone."""
    closed, close = os.pipe()
    ready, tell = os.pipe()
    once = Once(url)
    once.run("before", note, "before")

    def child() -> None:
        once.run("first", note, "first")
        os.write(tell, b"1")
        os.read(closed, 1)
        once.run("second", note, "second")

    pid = fork(child)
    os.read(ready, 1)
    once.close()
    os.write(close, b"1")
    fine = ended_well([pid])
    with Once(url) as stranger:
        return {
            "fine": fine,
            "replayed": [stranger.attempt(key, note, key).replayed for key in ("first", "second")],
        }


def tasks(url: str) -> dict:
    """An async guard used in a loop, then carried into children with loops of their own."""
    once = AsyncOnce(url, on_busy="wait", lease="10s")

    async def work(key: str) -> str:
        return note(key)

    async def race() -> None:
        for key in KEYS:
            assert await once.run(key, work, key) == f"value of {key}"

    asyncio.run(once.run("before", work, "before"))
    children = [fork(lambda: asyncio.run(race())) for _ in range(CHILDREN)]
    asyncio.run(race())
    fine = ended_well(children)
    replayed = asyncio.run(once.attempt("before", work, "before")).replayed
    asyncio.run(once.close())
    return {"fine": fine, "replayed": replayed}


def heir(url: str) -> dict:
    """A handler forks and dies; its child, which has claims of its own, must not keep the parent's alive."""
    once = Once(url, lease="300ms")
    ready, tell = os.pipe()

    def work() -> None:
        def child() -> None:
            once.run("of the child", lambda: os.write(tell, b"1") and time.sleep(2))

        fork(child)
        os._exit(0)

    pid = fork(lambda: once.run("of the parent", work))
    os.waitpid(pid, 0)
    os.read(ready, 1)
    died = time.monotonic()
    with Once(url) as stranger:
        while stranger.get("of the parent").state == "running" and time.monotonic() < died + 1.5:
            time.sleep(0.01)
        return {"state": stranger.get("of the parent").state}


def amid_heartbeat(url: str) -> dict:
    """A child comes into being while the parent's heartbeat is telling of a claim that was lost."""
    telling, forked = threading.Event(), threading.Event()

    def listen(event: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            telling.set()
            forked.wait(20)

    with Once(url, lease="300ms", events=[listen]) as once, Once(url) as other:
        with contextlib.suppress(ClaimLost), once.claim("key"):
            other.forget("key")
            assert telling.wait(20)
            child = fork(lambda: in_time(lambda: once.run("of the child", note, "of the child")))
            forked.set()
        return {"fine": ended_well([child])}


def in_time(work) -> None:
    """A child that hangs ends, and says where."""
    faulthandler.dump_traceback_later(3, exit=True)
    work()
    faulthandler.cancel_dump_traceback_later()


STORIES = (together, amid_threads, orphan, tasks, heir, amid_heartbeat)

if __name__ == "__main__":
    [story] = [story for story in STORIES if story.__name__ == sys.argv[1]]
    print(json.dumps(story(sys.argv[2])))
