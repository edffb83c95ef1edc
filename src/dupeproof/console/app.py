"""The console as an ASGI app: routes, and what stands around them."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from dupeproof.console import key_pages, overview_pages
from dupeproof.console.live_counts import ConsoleListener
from dupeproof.console.request_limits import Backend
from dupeproof.console.shield import Shield
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
    Route("/keys/confirm", key_pages.confirm_key, name="confirm_key", methods=_POST),
    Route("/keys/change", key_pages.do_key, name="change_key", methods=_POST),
    Route("/outbox/confirm", key_pages.confirm_message, name="confirm_message", methods=_POST),
    Route("/outbox/change", key_pages.do_message, name="change_message", methods=_POST),
    Route("/sign-in", key_pages.sign_in, name="sign_in", methods=_BOTH),
    Route("/sign-out", key_pages.sign_out, name="sign_out", methods=_POST),
    Mount("/static", StaticFiles(packages=[("dupeproof.console", "static")]), name="static"),
]


class ConsoleApp:
    """Mount it, or serve it by itself.

    `store` is a URL, or a store as `AsyncOnce` takes it; `database` where inbox and outbox are, if not there. `listener` is
    the one that your guards emit events to. Without `token` nothing can be changed; with it, who signs in with it may.
    Results stay hidden unless `show_results`. `hosts` are the names it may be called by, any of them for None.
    """

    def __init__(
        self,
        store: str | AsyncStore,
        *,
        database: str | None = None,
        listener: ConsoleListener | None = None,
        token: str | None = None,
        show_results: bool = False,
        hosts: Collection[str] | None = None,
    ) -> None:
        self._backend = Backend(
            store, database=database, listener=listener, token=token, show_results=show_results
        )
        refused = dict.fromkeys((DupeproofError, key_pages.SignInFirst), key_pages.refused)
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
