"""The pages that lead to a change: sign in, find a key, choose, confirm. Nothing is changed before the last step."""

from typing import Literal, cast

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dupeproof import defaults
from dupeproof.console.actions import (
    KEY_ACTIONS,
    OUTBOX_ACTIONS,
    KeyTarget,
    audited,
    change_key,
    chosen,
    json_value,
    move_message,
    possible,
)
from dupeproof.console.forms import fields, page, path_to
from dupeproof.console.request_limits import Backend, desk_of
from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError, NotReplayable, TokenError
from dupeproof.guards.results import Entry
from dupeproof.keys.names import check_key, check_namespace, key_digest


class SignInFirst(Exception):
    """A change was asked for by somebody who may only look."""


async def sign_in(request: Request) -> Response:
    backend = desk_of(request)
    if request.method != "POST":
        return page(request, "sign_in.html", wrong=False)
    given = (await fields(request)).get("token", "")
    if not backend.sessions.is_token(given):
        backend.audit.write(
            who=backend.who(request), did="sign in", what="console", outcome="refused: wrong token"
        )
        return page(request, "sign_in.html", status=403, wrong=True)
    backend.audit.write(who=backend.who(request), did="sign in", what="console", outcome="done")
    response = RedirectResponse(path_to(request, "overview"), status_code=303)
    backend.sessions.begin(request, response)
    return response


async def sign_out(request: Request) -> Response:
    response = RedirectResponse(path_to(request, "overview"), status_code=303)
    desk_of(request).sessions.end(request, response)
    return response


async def keys(request: Request) -> Response:
    """The key travels in the body of a POST, not in the address: addresses are logged and remembered."""
    backend = desk_of(request)
    if request.method != "POST":
        return page(request, "keys.html", target=None)
    target = _target(await fields(request))
    entry = await backend.once(target.namespace).get(target.key)
    digest = _digest(target)
    return page(
        request,
        "keys.html",
        target=target,
        digest=digest,
        entry=entry,
        actions={} if entry is None else possible(entry.state),
        result=_result(backend, entry),
        audit=backend.audit.lines(digest),
    )


async def confirm_key(request: Request) -> Response:
    backend = desk_of(request)
    session = _session(backend, request)
    given = await fields(request)
    target, name = _target(given), given.get("action", "")
    action = chosen(KEY_ACTIONS, name)
    json_value(target.result)
    milliseconds(target.window, name="the window")
    return page(
        request,
        "confirm.html",
        action=action,
        what=_digest(target),
        to="change_key",
        back="keys",
        hidden=msgspec.to_builtins(target) | {"action": name},
        confirmation=backend.sessions.ask(session, _asked(name, target)),
    )


async def do_key(request: Request) -> Response:
    backend = desk_of(request)
    session = _session(backend, request)
    given = await fields(request)
    target, name = _target(given), given.get("action", "")
    action = chosen(KEY_ACTIONS, name)
    await backend.sessions.confirmed(session, _asked(name, target), given.get("confirmation", ""))
    what = _digest(target)
    outcome = await audited(request, backend, name, what, lambda: change_key(backend, name, target))
    backend.stats.outdated()
    return page(
        request,
        "done.html",
        action=action,
        what=what,
        outcome=outcome,
        back="keys",
        audit=backend.audit.lines(what),
    )


async def confirm_message(request: Request) -> Response:
    backend = desk_of(request)
    session = _session(backend, request)
    name, message_id = _message(backend, await fields(request))
    return page(
        request,
        "confirm.html",
        action=chosen(OUTBOX_ACTIONS, name),
        what=message_id,
        to="change_message",
        back="outbox",
        hidden={"action": name, "id": message_id},
        confirmation=backend.sessions.ask(session, {"action": name, "message": message_id}),
    )


async def do_message(request: Request) -> Response:
    backend = desk_of(request)
    session = _session(backend, request)
    given = await fields(request)
    name, message_id = _message(backend, given)
    action = chosen(OUTBOX_ACTIONS, name)
    asked = {"action": name, "message": message_id}
    await backend.sessions.confirmed(session, asked, given.get("confirmation", ""))
    verb = cast("Literal['retry', 'drop']", name)
    outcome = await audited(
        request, backend, name, message_id, lambda: move_message(backend, verb, message_id)
    )
    if backend.outbox is not None:
        backend.outbox.outdated()
    return page(
        request,
        "done.html",
        action=action,
        what=message_id,
        outcome=outcome,
        back="outbox",
        audit=backend.audit.lines(message_id),
    )


async def refused(request: Request, exc: Exception) -> Response:
    """Bad input, a confirmation that is not good, a store that is down: what to do is in the text."""
    wrong_use = isinstance(exc, ConfigError | ValueError)
    status = 403 if isinstance(exc, TokenError | SignInFirst) else 400 if wrong_use else 503
    return page(request, "refused.html", status=status, error=str(exc))


def _session(backend: Backend, request: Request) -> str:
    session = backend.sessions.of(request)
    if session is None:
        raise SignInFirst(
            "This console is read-only: it was started without a token."
            if backend.sessions.read_only
            else "Sign in with the console's token before you change anything."
        )
    return session


def _target(given: dict[str, str]) -> KeyTarget:
    wanted = {name: given[name] for name in KeyTarget.__struct_fields__ if name in given}
    return KeyTarget(
        **wanted
        | {
            "namespace": check_namespace(given.get("namespace", defaults.NAMESPACE).strip()),
            "key": check_key(given.get("key")),
        }
    )


def _message(backend: Backend, given: dict[str, str]) -> tuple[str, str]:
    if backend.source is None:
        raise ConfigError("there is no outbox here; start the console with the database that has it")
    if not given.get("id"):
        raise ConfigError("which message? Choose one on the page of the outbox")
    return given.get("action", ""), given["id"]


def _digest(target: KeyTarget) -> str:
    return key_digest(target.namespace)(target.key).hex()[:12]


def _asked(name: str, target: KeyTarget) -> dict[str, str]:
    """All of it, so that what is done is what was confirmed."""
    return {"action": name, **msgspec.to_builtins(target)}


def _result(backend: Backend, entry: Entry | None) -> str | None:
    if entry is None or not backend.show_results or entry.state != "done":
        return None
    try:
        return msgspec.json.format(msgspec.json.encode(entry.result)).decode()
    except NotReplayable as exc:
        return f"({exc})"
