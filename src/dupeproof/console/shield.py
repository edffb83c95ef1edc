"""What every request passes: the right host, the right origin, and headers that leave a browser nothing to run but ours."""

from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dupeproof.errors import ConfigError

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: browsers then hide the origin of our own forms from us, too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LOOKS = ("GET", "HEAD")


class Shield:
    """`hosts` are the names it may be called by. Without them a site that resolves to this address could read it."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        if isinstance(hosts, str):  # a collection too: of its own parts, each of which would be let in
            raise ConfigError(f"hosts takes a list of names: hosts=[{hosts!r}]")
        self._app = app
        self._hosts = None if hosts is None else [host.lower() for host in hosts]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, guarded)
        else:
            await PlainTextResponse(refusal, status_code=403)(scope, receive, guarded)

    def _refusal(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if self._hosts is not None and _split(f"//{host}").hostname not in self._hosts:
            return f"This console answers only under: {', '.join(self._hosts)}."
        if method not in _LOOKS and _split(headers.get("origin", "")).netloc != (host or None):
            return "This came from another site, so nothing was done. Use the console's own pages."
        return None


def _split(address: str) -> SplitResult:
    """Nothing of what cannot be read."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
