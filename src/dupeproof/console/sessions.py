"""Who may change something, and that they meant it: a signed cookie with a name, and a token for each confirmed action."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from dupeproof.core.clock import system_clock
from dupeproof.core.protocols import AsyncStore
from dupeproof.errors import ConfigError, TokenError
from dupeproof.tokens import AsyncOneTimeTokens
from dupeproof.tokens.signature import ONLY_KEY, Signer

COOKIE = "dupeproof_console"
OPERATOR = "operator"
"""Who signs in with the one token of all and gives no name."""
_SHORTEST = 16
_LONGEST_NAME = 64
_LASTS = "8h"
_TO_CONFIRM = "5m"
_MAKE_ONE = "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class Session(Struct, frozen=True):
    id: str
    who: str


class Sessions:
    """Without any token there are none, and nothing can be changed.

    `users` has a token for each name. With `token` everybody has the same one, and says who they are.
    """

    def __init__(self, token: str | None, users: Mapping[str, str] | None, store: AsyncStore) -> None:
        self._tokens = _checked(token, users or {})
        self._signers = {name: Signer({_key_id(name): secret}) for name, secret in self._tokens.items()}
        # Used up in the store and not here, so that one confirmation is one action also with several workers. Those have the
        # same tokens, and so the same secret.
        everything = sha256(repr(sorted(self._tokens.items())).encode()).digest()
        self._confirmations = (
            AsyncOneTimeTokens(store, secret=everything, namespace="dupeproof.console")
            if self._tokens
            else None
        )

    @property
    def read_only(self) -> bool:
        return not self._tokens

    @property
    def asks_for_a_name(self) -> bool:
        return "" in self._tokens

    def who_has(self, given: str, name: str) -> str | None:
        """Whose token this is; None if nobody's. All are compared, so the time says nothing."""
        found = None
        for each, token in self._tokens.items():
            if hmac.compare_digest(given.encode(), token.encode()):
                found = each
        if found != "":
            return found
        who = check_name(name.strip() or OPERATOR)
        if who in self._tokens:
            raise ConfigError(f"{who} has a token of their own; sign in with that, or give another name")
        return who

    def begin(self, request: Request, response: Response, who: str) -> None:
        signer = self._signers[who if who in self._signers else ""]
        signed = signer.issue(_what(who), _LASTS, system_clock())
        response.set_cookie(
            COOKIE,
            f"{signed}.{urlsafe_b64encode(who.encode()).decode().rstrip('=')}",
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def end(self, request: Request, response: Response) -> None:
        response.delete_cookie(
            COOKIE, path=request.scope.get("root_path") or "/", httponly=True, samesite="strict"
        )

    def of(self, request: Request) -> Session | None:
        """None for somebody who may only look."""
        signed, _, name = request.cookies.get(COOKIE, "").rpartition(".")
        try:
            who = urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
            signer = self._signers.get(who) or self._signers.get("")
            token = None if signer is None else signer.read(signed)
        except (TokenError, ValueError):
            return None
        if signer is None or token is None or not signer.is_bound_to(token, _what(who)):
            return None
        return Session(token.id.hex(), who) if token.expires_at > system_clock() else None

    def ask(self, session: Session, action: Mapping[str, str]) -> str:
        """What the form that confirms this very action has to bring back."""
        assert self._confirmations is not None
        return self._confirmations.issue({"session": session.id, **action}, _TO_CONFIRM)

    async def confirmed(self, session: Session, action: Mapping[str, str], given: str) -> None:
        """Raises `TokenError` unless this session was asked for this very action, just now, and has not done it yet."""
        assert self._confirmations is not None
        await self._confirmations.redeem(given, {"session": session.id, **action})


def check_name(name: str) -> str:
    if name and name.isprintable() and len(name) <= _LONGEST_NAME:
        return name
    raise ConfigError(f"the name of a person is a printable text of at most {_LONGEST_NAME} characters")


def _checked(token: str | None, users: Mapping[str, str]) -> dict[str, str]:
    """By name; the one that is everybody's has none."""
    tokens = {check_name(name.strip()): secret for name, secret in users.items()}
    if len(tokens) < len(users):
        raise ConfigError("two users of the console have the same name")
    if token is not None:
        tokens[""] = token
    for name, secret in tokens.items():
        if len(secret.encode()) < _SHORTEST:
            whose = f"the token of {name}" if name else "the console's token"
            raise ConfigError(f"{whose} has fewer than {_SHORTEST} bytes and could be guessed; {_MAKE_ONE}")
    if len(set(tokens.values())) < len(tokens):
        raise ConfigError(
            f"two users of the console have the same token, so nobody knew who did what; {_MAKE_ONE}"
        )
    return tokens


def _key_id(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:16] if name else ONLY_KEY


def _what(who: str) -> dict[str, str]:
    return {"what": "console session", "who": who}
