"""The pages that lead to a change: sign in, choose, confirm. Nothing is changed before the last step."""

import re

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dupeproof.console.actions import KEY_ACTIONS, OUTBOX_ACTIONS, chosen
from dupeproof.console.changes import carry_out, make_order, plan, read_seen
from dupeproof.console.forms import fields, page, path_to
from dupeproof.console.key_pages import wanted_of
from dupeproof.console.listed_keys import MOST_AT_ONCE
from dupeproof.console.request_limits import Backend, desk_of
from dupeproof.console.sessions import Session
from dupeproof.errors import ConfigError, DupeproofError, TokenError

_OURS = re.compile(r"(keys|outbox|windows|purge|audit)?(/[0-9a-f]{32})?(\?[\w=&%.+-]*)?", re.ASCII)
_DIGEST = re.compile("[0-9a-f]{32}")


class SignInFirst(Exception):
    """A change was asked for by somebody who may only look."""


async def sign_in(request: Request) -> Response:
    backend = desk_of(request)
    if request.method != "POST":
        return _sign_in_page(request, then=request.query_params.get("then", ""))
    given = await fields(request)
    then = given.get("then", "")
    who = backend.sessions.who_has(given.get("token", ""), given.get("name", ""))
    if who is None:
        address = "unknown" if request.client is None else request.client.host
        backend.audit.write(
            who=f"somebody at {address}", did="sign in", what="console", outcome="refused: wrong token"
        )
        return _sign_in_page(request, then=then, status=403, wrong=True)
    backend.audit.write(who=who, did="sign in", what="console", outcome="done")
    response = RedirectResponse(path_to(request, "overview") + _checked(then), status_code=303)
    backend.sessions.begin(request, response, who)
    return response


async def sign_out(request: Request) -> Response:
    response = RedirectResponse(path_to(request, "overview"), status_code=303)
    desk_of(request).sessions.end(request, response)
    return response


async def confirm_keys(request: Request) -> Response:
    """What would happen to which keys. Nothing does yet."""
    backend = desk_of(request)
    session = _session(backend, request)
    given = await fields(request)
    order = make_order(given.get("action", ""), given.get("result", ""), given.get("window", ""))
    digests, left_out = await _chosen(backend, given)
    planned = await plan(backend, order.action, digests)
    keys = " ".join(each.seen.text for each in planned if each.seen is not None)
    hidden = {
        "action": order.action,
        "result": given.get("result", ""),
        "window": given.get("window", ""),
        "keys": keys,
    }
    hidden["back"] = _checked(given.get("back", ""))
    return page(
        request,
        "confirm.html",
        name=order.action,
        action=KEY_ACTIONS[order.action],
        changes=[each for each in planned if each.seen is not None],
        left=[each for each in planned if each.seen is None],
        gone=len(digests) - len(planned),
        left_out=left_out,
        back=hidden["back"],
        hidden=hidden,
        confirmation=backend.sessions.ask(session, hidden),
    )


async def change_keys(request: Request) -> Response:
    backend = desk_of(request)
    session = _session(backend, request)
    given = await fields(request)
    order = make_order(given.get("action", ""), given.get("result", ""), given.get("window", ""))
    confirmed = read_seen(given.get("keys", ""))
    asked = {name: given.get(name, "") for name in ("action", "result", "window", "keys", "back")}
    await backend.sessions.confirmed(session, asked, given.get("confirmation", ""))
    outcomes = await carry_out(backend, order, confirmed, session.who)
    return page(
        request,
        "changed.html",
        action=KEY_ACTIONS[order.action],
        outcomes=sorted(outcomes, key=lambda each: each.changed),
        count=sum(each.changed for each in outcomes),
        back=_checked(asked["back"]),
    )


async def confirm_message(request: Request) -> Response:
    backend = desk_of(request)
    session = _session(backend, request)
    name, message_id = _message(backend, await fields(request))
    hidden = {"action": name, "id": message_id}
    return page(
        request,
        "confirm_message.html",
        action=chosen(OUTBOX_ACTIONS, name),
        what=message_id,
        hidden=hidden,
        confirmation=backend.sessions.ask(session, hidden),
    )


async def change_message(request: Request) -> Response:
    backend = desk_of(request)
    session = _session(backend, request)
    given = await fields(request)
    name, message_id = _message(backend, given)
    action = chosen(OUTBOX_ACTIONS, name)
    await backend.sessions.confirmed(
        session, {"action": name, "id": message_id}, given.get("confirmation", "")
    )
    begun = backend.audit.begin(who=session.who, did=name, what=message_id)
    try:
        moved = await _move(backend, name, message_id)
        outcome = action.past if moved else "left: it is not dead any more"
    except DupeproofError as exc:
        outcome = f"refused: {exc}"
    except BaseException as exc:
        backend.audit.end(begun, f"unknown: {type(exc).__name__}")
        raise
    backend.audit.end(begun, outcome)
    backend.changed()
    return page(request, "changed_message.html", what=message_id, outcome=outcome)


async def refused(request: Request, exc: Exception) -> Response:
    """Bad input, a confirmation that is not good, a store that is down: what to do is in the text."""
    wrong_use = isinstance(exc, ConfigError | ValueError)
    status = 403 if isinstance(exc, TokenError | SignInFirst) else 400 if wrong_use else 503
    return page(request, "refused.html", status=status, error=str(exc))


async def _move(backend: Backend, name: str, message_id: str) -> bool:
    assert backend.source is not None
    moved = await (backend.source.retry if name == "retry" else backend.source.drop)([message_id])
    return message_id in moved


def _sign_in_page(request: Request, *, then: str, status: int = 200, wrong: bool = False) -> Response:
    asks = desk_of(request).sessions.asks_for_a_name
    return page(
        request, "sign_in.html", status=status, wrong=wrong, then=_checked(then), asks_for_a_name=asks
    )


def _session(backend: Backend, request: Request) -> Session:
    session = backend.sessions.of(request)
    if session is None:
        raise SignInFirst(
            "This console is read-only: it was started without a token."
            if backend.sessions.read_only
            else "Sign in with the console's token before you change anything."
        )
    return session


async def _chosen(backend: Backend, given: dict[str, str]) -> tuple[list[str], int]:
    """The digests that were chosen, and how many more there are than can be changed together."""
    if given.get("all"):
        matches = await backend.keys.matches(wanted_of(given))
        if matches.error:
            raise ConfigError(matches.error)
        digests = [each.key.hex() for each in matches.listed[:MOST_AT_ONCE]]
        left_out = matches.total - len(digests)
    else:
        digests, left_out = list(dict.fromkeys(given.get("digest", "").split())), 0
    if not digests or not all(map(_DIGEST.fullmatch, digests)):
        raise ConfigError("which keys? Choose them in the list first")
    return digests, left_out


def _checked(then: str) -> str:
    """A page of ours to go on to, below the overview; any other address is none."""
    return then if _OURS.fullmatch(then) else ""


def _message(backend: Backend, given: dict[str, str]) -> tuple[str, str]:
    if backend.source is None:
        raise ConfigError("there is no outbox here; start the console with the database that has it")
    if not given.get("id"):
        raise ConfigError("which message? Choose one on the page of the outbox")
    return given.get("action", ""), given["id"]
