"""The console as an ASGI app: routes, and what stands around them."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from dupeproof.console import change_pages, key_pages, overview_pages
from dupeproof.console.live_counts import ConsoleListener
from dupeproof.console.request_limits import Backend
from dupeproof.console.shield import Shield
from dupeproof.core.policy import Lookup
from dupeproof.core.protocols import AsyncStore
from dupeproof.errors import DupeproofError

_POST = ["POST"]
_BOTH = ["GET", "POST"]
_ROUTES = [
    Route("/", overview_pages.overview, name="overview"),
    Route("/windows", overview_pages.windows, name="windows"),
    Route("/outbox", overview_pages.outbox, name="outbox"),
    Route("/purge", overview_pages.purge, name="purge"),
    Route("/audit", overview_pages.audit, name="audit"),
    Route("/keys", key_pages.keys, name="keys", methods=_BOTH),
    Route("/keys/confirm", change_pages.confirm_keys, name="confirm_keys", methods=_POST),
    Route("/keys/change", change_pages.change_keys, name="change_keys", methods=_POST),
    Route("/keys/{digest}", key_pages.key, name="key"),
    Route("/outbox/confirm", change_pages.confirm_message, name="confirm_message", methods=_POST),
    Route("/outbox/change", change_pages.change_message, name="change_message", methods=_POST),
    Route("/sign-in", change_pages.sign_in, name="sign_in", methods=_BOTH),
    Route("/sign-out", change_pages.sign_out, name="sign_out", methods=_POST),
    Mount("/static", StaticFiles(packages=[("dupeproof.console", "static")]), name="static"),
]


class ConsoleApp:
    """Mount it, or serve it by itself.

    `store` is a URL, or a store as `AsyncOnce` takes it; `database` where inbox and outbox are, if not there. `listener` is
    the one that your guards emit events to. Who signs in with a token of `users`, by name, may change things, and the audit
    has the name. `token` is one for everybody, who then says who they are. Without any, nothing can be changed.
    `settle` is the lookup that can be asked about held keys: one that takes an entry alone, as `once.settle` takes it.
    Results stay hidden unless `show_results`. `hosts` are the names it may be called by, any of them for None.
    """

    def __init__(
        self,
        store: str | AsyncStore,
        *,
        database: str | None = None,
        listener: ConsoleListener | None = None,
        token: str | None = None,
        users: Mapping[str, str] | None = None,
        settle: Lookup | None = None,
        show_results: bool = False,
        hosts: Collection[str] | None = None,
    ) -> None:
        self._backend = Backend(
            store,
            database=database,
            listener=listener,
            token=token,
            users=users,
            lookup=settle,
            show_results=show_results,
        )
        refused = dict.fromkeys((DupeproofError, change_pages.SignInFirst), change_pages.refused)
        app = Starlette(routes=_ROUTES, exception_handlers=refused, lifespan=self._live)
        app.state.backend = self._backend
        self._app = Shield(app, hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def close(self) -> None:
        """Give up connections; a mounted app gets no event when its host ends. Closing twice is fine."""
        await self._backend.close()

    @asynccontextmanager
    async def _live(self, _app: Starlette) -> AsyncIterator[None]:
        yield
        await self.close()
