"""What all pages share: the store, what is known of it, who may change it."""

import asyncio
from collections.abc import Mapping

from msgspec import Struct
from starlette.requests import Request

from dupeproof.console.audit import Audit
from dupeproof.console.growth import Growth
from dupeproof.console.listed_keys import ListedKeys
from dupeproof.console.live_counts import ConsoleListener
from dupeproof.console.sessions import Sessions
from dupeproof.console.store_queries import Look
from dupeproof.core.policy import Lookup
from dupeproof.core.protocols import AsyncStore
from dupeproof.core.records import Stats
from dupeproof.doctor import Report, examine
from dupeproof.guards import AsyncOnce
from dupeproof.guards.claims_async import AsyncClaims
from dupeproof.guards.lookups import check_lookup
from dupeproof.guards.options import resolve_store
from dupeproof.inbox.groups import Group, read_groups
from dupeproof.outbox.reports import DeadMessage, OutboxStatus
from dupeproof.outbox.sources import POSTGRES, STEPWISE, AsyncSource, open_async_source
from dupeproof.stores import open_async_store
from dupeproof.stores.factory import durable_url
from dupeproof.stores.urls import redact

_MOST_DEAD = 100
_EXAMINED_EVERY = 15.0


class OutboxState(Struct, frozen=True):
    status: OutboxStatus
    dead: list[DeadMessage]


class Backend:
    """Pages exist only for what the store or its database can show."""

    def __init__(
        self,
        store: str | AsyncStore,
        *,
        database: str | None,
        listener: ConsoleListener | None,
        token: str | None,
        users: Mapping[str, str] | None,
        lookup: Lookup | None,
        show_results: bool,
    ) -> None:
        check_lookup(lookup, is_async=True)
        url = store if isinstance(store, str) else None
        database = _sql_database(url) if database is None else database
        self.name = type(store).__name__ if url is None else redact(url)
        self.listener = listener
        self.show_results = show_results
        self.audit = Audit()
        self.store: AsyncStore = resolve_store(store, open_async_store, is_async=True)
        self._owned = url is not None
        self.sessions = Sessions(token, users, self.store)
        self.keys = ListedKeys(self.store)
        self.lookup = lookup
        self._asking: AsyncOnce | None = None
        self.growth = Growth()
        self.source: AsyncSource | None = None if database is None else open_async_source(database)
        self.stats: Look[Stats] = Look(self.store.stats)
        self.health: Look[Report] | None = None
        self.groups: Look[dict[str, Group]] | None = None
        self.outbox: Look[OutboxState] | None = None
        if url is not None and not url.startswith("memory:"):
            self.health = Look(lambda: asyncio.to_thread(examine, url), shortest=_EXAMINED_EVERY)
        if database is not None:
            self.groups = Look(lambda: asyncio.to_thread(read_groups, database))
            self.outbox = Look(self._outbox)

    def claims(self) -> AsyncClaims:
        """Under which keys are owned while a lookup is asked about them."""
        if self._asking is None:
            self._asking = AsyncOnce(self.store)
        return self._asking.claims(name="", codec=self._asking.codec)

    def changed(self) -> None:
        """Figures and lists that were read before are out of date."""
        self.stats.outdated()
        self.keys.outdated()
        if self.outbox is not None:
            self.outbox.outdated()

    async def _outbox(self) -> OutboxState:
        assert self.source is not None
        return OutboxState(await self.source.status(), await self.source.dead(_MOST_DEAD))

    async def close(self) -> None:
        await self.keys.close()
        if self._asking is not None:
            await self._asking.close()
        if self.source is not None:
            await self.source.close()
        if self._owned:
            await self.store.close()


def desk_of(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


def _sql_database(url: str | None) -> str | None:
    """Where the tables of inbox and outbox would be; None for stores that can have none."""
    durable = "" if url is None else durable_url(url)
    return durable if durable.partition("://")[0] in (*POSTGRES, *STEPWISE) else None
