"""Purger: removes expired records and marks, batch by batch, once or every so often.

Each batch is a transaction of the store's own, and only the store's clock says what has expired. So a purge may be
killed anywhere, and any number may run at once: what is gone is gone, the rest is there for the next pass.
"""

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from dupeproof import defaults
from dupeproof.cleanup.pace import PurgeReport, make_pace
from dupeproof.cleanup.runtime_async import IS_ASYNC, Service, Stopping
from dupeproof.core.durations import Duration
from dupeproof.core.events import (
    OF_PURGERS,
    Event,
    Kind,
    Listener,
    as_listeners,
    count_from_zero,
    logger,
    publish,
)
from dupeproof.core.protocols import AsyncPurgeable
from dupeproof.errors import StoreUnavailable
from dupeproof.guards.options import resolve_store
from dupeproof.sql.database_option import is_mysql
from dupeproof.stores.clients import StoreClient
from dupeproof.stores.factory import open_async_store, plain_url
from dupeproof.stores.mysql.tables_async import AsyncMySQLTables

_NO_STORES = ("mysql", "mariadb")
Progress = Callable[[int], object]
"""Called after each batch with how many have been removed so far."""


def open_purgeable(url: str | StoreClient) -> AsyncPurgeable:
    """A store, or the tables of inboxes in a database that is none."""
    if isinstance(url, str):
        url = plain_url(url)
        return AsyncMySQLTables(url) if is_mysql(url) else open_async_store(url)
    dialect = getattr(url, "dialect", None)
    return (
        AsyncMySQLTables(url) if dialect is not None and dialect.name in _NO_STORES else open_async_store(url)
    )


class AsyncPurger:
    """Cleans one store, or the inboxes in a MariaDB. `run_once` makes one pass; `start` makes one now and then one `every` so often.

    `batch` is how many rows go in one transaction; `pause` how long to rest after it, as a share of the time it
    took, so that writers get their turn. A store that is down is tried again, soon at first.
    """

    def __init__(
        self,
        store: str | StoreClient | AsyncPurgeable,
        *,
        every: Duration = defaults.PURGE_EVERY,
        batch: int = defaults.PURGE_BATCH,
        pause: float = defaults.PURGE_PAUSE,
        events: Iterable[Listener] = (),
    ) -> None:
        self._pace = make_pace(every=every, batch=batch, pause=pause)
        self._store = resolve_store(store, open_purgeable, is_async=IS_ASYNC, verb="purge")
        self._owned = isinstance(store, str)
        self._listeners = as_listeners(events)
        count_from_zero(self._listeners, OF_PURGERS, "")
        self._service = Service("dupeproof-purger", self._serve)
        self._clean_since: float | None = None
        self.last: PurgeReport | None = None
        """The latest pass that did not fail."""

    @property
    def running(self) -> bool:
        return self._service.running

    async def run_once(self, progress: Progress | None = None) -> PurgeReport:
        """Remove what has expired, until nothing is left. Raises `StoreUnavailable`."""
        return await self._pass(Stopping(), progress)

    async def start(self) -> None:
        """Begin in the background. Starting twice is one service."""
        await self._service.start()

    async def stop(self) -> None:
        """End the service after the batch it is at, and give up connections made here. Stopping twice is fine."""
        await self._service.stop()
        if self._owned:
            await self._store.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def _serve(self, stopping: Stopping) -> None:
        failures = 0
        while not stopping.is_set():
            try:
                await self._pass(stopping, None)
            except StoreUnavailable as exc:
                failures += 1
                logger.warning("Purging failed, trying again later: %s", exc)
                publish(self._listeners, Event(kind=Kind.STORE_DOWN, namespace=""))
            except Exception:
                # A service that dies unseen lets the table grow for months; one that complains gets mended.
                failures += 1
                logger.exception("Purging failed, trying again later")
            else:
                failures = 0
            await stopping.wait(self._pace.after_failure(failures) if failures else self._pace.after_pass())

    async def _pass(self, stopping: Stopping, progress: Progress | None) -> PurgeReport:
        began = time.monotonic()
        removed = batches = 0
        complete = False
        try:
            while not (complete or stopping.is_set()):
                batch_began = time.monotonic()
                gone = await self._store.purge(self._pace.batch)
                removed += gone
                batches += 1
                complete = gone < self._pace.batch
                if progress is not None:
                    progress(removed)
                if not complete:
                    await stopping.wait(self._pace.after_batch(time.monotonic() - batch_began))
        finally:
            # Also when the store went away half-way: those that are gone were removed all the same.
            seconds = time.monotonic() - began
            lag = self._lag()
            if complete:
                self._clean_since = began
            if removed or complete:
                left = self._lag()
                event = Event(kind=Kind.PURGED, namespace="", count=removed, seconds=seconds, lag=left)
                publish(self._listeners, event)
        report = PurgeReport(removed=removed, batches=batches, seconds=seconds, complete=complete, lag=lag)
        self.last = report
        return report

    def _lag(self) -> float | None:
        """Seconds since the last pass that left nothing began."""
        return None if self._clean_since is None else time.monotonic() - self._clean_since
