"""Forms that are sent once, by a one-time token in a hidden field or a header; for Flask, FastAPI, Starlette and Django.

    {{ token_field(tokens.issue({"user": user.id, "action": "order"}, ttl="10m")) }}      in the page
    tokens.redeem(token_of(request.headers, request.form), {"user": user.id, "action": "order"})      when it comes

A button that is clicked twice sends the same token twice; the second time is `TokenUsed`, which the helpers turn into a
409 of the framework, and all other faults of a token into a 403.
"""

from collections.abc import Mapping
from html import escape
from typing import Any

from dupeproof.errors import TokenError, TokenForged, TokenUsed
from dupeproof.tokens import AsyncOneTimeTokens, OneTimeTokens

FIELD = "dedup_token"
HEADER = "X-Dedup-Token"
Context = Mapping[str, Any]


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


def redeem_in_flask(tokens: OneTimeTokens, context: Context) -> str:
    """In a view of Flask: use up the token of the request, or abort with 409 or 403; the id of the token."""
    from flask import abort, request  # noqa: PLC0415 - an extra

    try:
        return tokens.redeem(token_of(request.headers, request.form), context)
    except TokenError as exc:
        abort(status_of(exc), str(exc))


async def redeem_in_starlette(request: Any, tokens: AsyncOneTimeTokens, context: Context) -> str:
    """In an endpoint of Starlette or FastAPI: the same, by its HTTPException. Forms need python-multipart."""
    from starlette.exceptions import HTTPException  # noqa: PLC0415 - an extra

    form = {} if HEADER in request.headers else await request.form()
    try:
        return await tokens.redeem(token_of(request.headers, form), context)
    except TokenError as exc:
        raise HTTPException(status_of(exc), str(exc)) from exc


def redeem_in_django(request: Any, tokens: OneTimeTokens, context: Context) -> str:
    """In a view of Django: the same, but `TokenUsed` is raised as it is, for Django has no error for a conflict."""
    from django.core.exceptions import PermissionDenied  # noqa: PLC0415 - an extra

    try:
        return tokens.redeem(token_of(request.headers, request.POST), context)
    except TokenUsed:
        raise
    except TokenError as exc:
        raise PermissionDenied(str(exc)) from exc
