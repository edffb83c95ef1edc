"""Guarded calls in many threads and tasks while a server is being tortured, with a ledger of what really ran."""

import asyncio
import contextlib
import itertools
import threading
import time
from collections import defaultdict

from dupeproof import Busy, ClaimLost, StoreUnavailable
from support.flavors import open_once
from support.workers import wait_for


async def closed(client):
    """With those of the Sentinels it asks, and with time for what it closes in the background."""
    sentinels = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    for each in [client, *(sentinels.sentinels if sentinels else ())]:
        await each.aclose()
    await asyncio.sleep(0.2)


class Load:
    """Each caller has keys of its own and asks for each key twice in a row."""

    def __init__(self, url, *, callers=8, **options):
        self._url = url
        self._options = options
        self._callers = callers
        self._over = threading.Event()
        self._serial = itertools.count()
        self.runs = defaultdict(list)
        self.answers = []
        self.errors = []
        self.unexpected = []

    def _guard(self, stack, flavor):
        """`url` may be a function that makes a client of the flavor, which is closed before the guard's loop ends."""
        store = self._url(flavor) if callable(self._url) else self._url
        guard = stack.enter_context(open_once(flavor, store, **self._options))
        if callable(self._url):
            stack.callback((lambda: guard.do(closed(store))) if flavor == "async" else store.close)
            stack.callback(guard.close)
        return guard

    @contextlib.contextmanager
    def running(self):
        with contextlib.ExitStack() as stack:
            guards = [self._guard(stack, flavor) for flavor in ("sync", "async")]
            threads = [
                threading.Thread(target=self._call, args=(f"caller-{number}", guards[number % 2]))
                for number in range(self._callers)
            ]
            for thread in threads:
                thread.start()
            try:
                self.wait_for_more()
                yield
            finally:
                self._over.set()
                for thread in threads:
                    thread.join()

    def wait_for_more(self, count=200):
        """Until so many more calls have succeeded."""
        already = len(self.answers)
        wait_for(
            lambda: len(self.answers) >= already + count, seconds=40, what=f"{count} more successful calls"
        )

    def work(self, key):
        value = f"{key} run {next(self._serial)}"
        self.runs[key].append(value)
        return value

    def _call(self, name, guard):
        for number in itertools.count():
            for _ in range(2):
                if self._over.is_set():
                    return
                self._call_once(guard, f"{name}-{number}")

    def _call_once(self, guard, key):
        try:
            self.answers.append((key, guard.run(key, self.work, key)))
        except (StoreUnavailable, ClaimLost, Busy) as error:
            self.errors.append(type(error).__name__)
            time.sleep(0.01)
        except BaseException as error:
            self.unexpected.append(repr(error))

    def wrong_answers(self):
        """Values that no run of their key has made."""
        return [(key, value) for key, value in self.answers if value not in self.runs[key]]

    def repeated(self):
        """Keys that ran again after a call for them had succeeded or failed."""
        return {key: values for key, values in self.runs.items() if len(values) > 1}
