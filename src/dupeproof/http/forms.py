"""Forms that are sent once, by a one-time token in a hidden field or a header; for Flask, FastAPI, Starlette and Django.

    {{ token_field(tokens.issue({"user": user.id, "action": "order"}, ttl="10m")) }}      in the page
    tokens.redeem(token_of(request.headers, request.form), {"user": user.id, "action": "order"})      when it comes

A button that is clicked twice sends the same token twice. The second time is `TokenUsed`, which the helpers answer with a
409, and all other faults of a token with a 403; in every framework with the same text, in the format of its own errors:

    Flask                  abort(409): a page, and whatever your error handlers make of it
    Starlette, FastAPI     HTTPException(409): text, or {"detail": …}
    Django                 dupeproof.http.django.TokenMiddleware: text; without it every fault is a PermissionDenied

What is stored under a token is only that it was used. Keep what was done under the id that `redeem` gives, and show it
again to `TokenUsed.token_id`. Or, to give the second click the answer of the first, take the token for the key of a guard: `Idempotent(key=lambda request: request.form.get("dedup_token"), wait="10s", …)` in Flask, and with
`request.POST` in Django.
"""

from collections.abc import Mapping
from html import escape
from typing import Any

from dupeproof.errors import ConfigError, TokenError, TokenExpired, TokenForged, TokenUsed
from dupeproof.tokens import AsyncOneTimeTokens, OneTimeTokens

FIELD = "dedup_token"
HEADER = "X-Dedup-Token"
Context = Mapping[str, Any]
_WORDS: dict[type[TokenError], str] = {
    TokenUsed: "This form was sent before. It was taken the first time, and is not taken again.",
    TokenExpired: "This form is too old, so nothing was done. Load the page again.",
}


class Field(str):
    """HTML as it is: templates of Jinja and Django ask for `__html__` and do not escape it again."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def token_field(token: str, name: str = FIELD) -> Field:
    """A hidden field with the token in it."""
    return Field(f'<input type="hidden" name="{escape(name)}" value="{escape(token)}">')


def token_of(headers: Any, form: Mapping[str, Any], name: str = FIELD) -> str:
    """The token that came, in the header or else in the form; none is as good as a forged one. `headers` has `get`."""
    token = headers.get(HEADER) or form.get(name)
    if not isinstance(token, str):
        raise TokenForged(f"there is no token in the field {name} or the header {HEADER}")
    return token


def status_of(error: TokenError) -> int:
    """What to answer: a conflict for what was sent before, else a refusal."""
    return 409 if isinstance(error, TokenUsed) else 403


def words_for(error: TokenError) -> str:
    """The text for the person who sent the form."""
    known = (text for kind, text in _WORDS.items() if isinstance(error, kind))
    return next(
        known, "This form was not made for you or for this, so nothing was done. Load the page again."
    )


def _check_kind(tokens: object, wanted: type) -> None:
    """Of tokens of the other kind the answer would come too late, or be taken for a yes."""
    if not isinstance(tokens, wanted):
        raise ConfigError(f"this takes {wanted.__name__}; got {type(tokens).__name__}")


def redeem_in_flask(tokens: OneTimeTokens, context: Context) -> str:
    """In a view of Flask: use up the token of the request, or abort with 409 or 403; the id of the token."""
    from flask import abort, request  # noqa: PLC0415 - an extra

    _check_kind(tokens, OneTimeTokens)
    try:
        return tokens.redeem(token_of(request.headers, request.form), context)
    except TokenError as exc:
        abort(status_of(exc), words_for(exc))


async def redeem_in_starlette(request: Any, tokens: AsyncOneTimeTokens, context: Context) -> str:
    """In an endpoint of Starlette or FastAPI: the same, by its HTTPException. Forms need python-multipart."""
    from starlette.exceptions import HTTPException  # noqa: PLC0415 - an extra

    _check_kind(tokens, AsyncOneTimeTokens)
    form = {} if request.headers.get(HEADER) else await request.form()
    try:
        return await tokens.redeem(token_of(request.headers, form), context)
    except TokenError as exc:
        raise HTTPException(status_of(exc), words_for(exc)) from exc


def redeem_in_django(request: Any, tokens: OneTimeTokens, context: Context) -> str:
    """In a view of Django: the same, by exceptions that `TokenMiddleware` answers and Django alone takes for a 403."""
    from dupeproof.http.django import SentBefore, TokenRefused  # noqa: PLC0415 - an extra

    _check_kind(tokens, OneTimeTokens)
    try:
        return tokens.redeem(token_of(request.headers, request.POST), context)
    except TokenUsed as exc:
        raise SentBefore(str(exc)) from exc
    except TokenError as exc:
        raise TokenRefused(str(exc)) from exc
