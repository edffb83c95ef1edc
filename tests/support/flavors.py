"""The sync and the async guard behind the same plain calls, so that one test speaks to both."""

import asyncio
import threading

import pytest

from dupeproof import AsyncOnce, Once

both_flavors = pytest.mark.parametrize("flavor", ["sync", "async"])


def open_once(flavor, url, **options):
    """A context manager. Handlers are plain functions in either case."""
    return Once(url, **options) if flavor == "sync" else Driven(url, **options)


class Driven:
    """An AsyncOnce in an event loop of its own thread; each call waits there for its coroutine."""

    def __init__(self, url, **options):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._once = AsyncOnce(url, **options)

    def run(self, key, fn, *args):
        return self.attempt(key, fn, *args).value

    def attempt(self, key, fn, *args):
        async def work(*args):
            return await asyncio.to_thread(fn, *args)

        return self.do(self._once.attempt(key, work, *args))

    def seen(self, key):
        return self.do(self._once.seen(key))

    def fresh(self, ids):
        return self.do(self._once.fresh(ids))

    def get(self, key):
        return self.do(self._once.get(key))

    def forget(self, key):
        return self.do(self._once.forget(key))

    def check(self):
        return self.do(self._once.check())

    def close(self):
        self.do(self._once.close())

    def do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.close()
        self.do(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
