"""Who may change something, and that they meant it: a signed cookie, and a token for each confirmed action."""

import hmac
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from dupeproof.core.clock import system_clock
from dupeproof.core.protocols import AsyncStore
from dupeproof.errors import ConfigError, TokenError
from dupeproof.tokens import AsyncOneTimeTokens
from dupeproof.tokens.signature import Signer

COOKIE = "dupeproof_console"
_SHORTEST = 16
_LASTS = "8h"
_TO_CONFIRM = "5m"
_WHAT = {"what": "console session"}


class Sessions:
    """Without a token there are none, and nothing can be changed."""

    def __init__(self, token: str | None, store: AsyncStore) -> None:
        if token is not None and len(token.encode()) < _SHORTEST:
            raise ConfigError(
                f"the console's token has fewer than {_SHORTEST} bytes and could be guessed; "
                "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        self._token = token
        self._signer = None if token is None else Signer(token)
        # Used up in the store and not here, so that one confirmation is one action also with several workers.
        self._confirmations = (
            None if token is None else AsyncOneTimeTokens(store, secret=token, namespace="dupeproof.console")
        )

    @property
    def read_only(self) -> bool:
        return self._token is None

    def is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def begin(self, request: Request, response: Response) -> None:
        assert self._signer is not None
        response.set_cookie(
            COOKIE,
            self._signer.issue(_WHAT, _LASTS, system_clock()),
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def end(self, request: Request, response: Response) -> None:
        response.delete_cookie(
            COOKIE, path=request.scope.get("root_path") or "/", httponly=True, samesite="strict"
        )

    def of(self, request: Request) -> str | None:
        """The id of the session, None for somebody who may only look."""
        cookie = request.cookies.get(COOKIE)
        if self._signer is None or cookie is None:
            return None
        try:
            token = self._signer.read(cookie)
        except TokenError:
            return None
        good = token.expires_at > system_clock() and self._signer.is_bound_to(token, _WHAT)
        return token.id.hex() if good else None

    def ask(self, session: str, action: Mapping[str, str]) -> str:
        """What the form that confirms this very action has to bring back."""
        assert self._confirmations is not None
        return self._confirmations.issue({"session": session, **action}, _TO_CONFIRM)

    async def confirmed(self, session: str, action: Mapping[str, str], given: str) -> None:
        """Raises `TokenError` unless this session was asked for this very action, just now, and has not done it yet."""
        assert self._confirmations is not None
        await self._confirmations.redeem(given, {"session": session, **action})
