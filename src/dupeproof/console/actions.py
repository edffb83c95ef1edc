"""What can be done to a key or a dead message: one table, and one way in which everything is done."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct
from starlette.requests import Request

from dupeproof import defaults
from dupeproof.console.request_limits import Backend
from dupeproof.core.states import Event, State, allows
from dupeproof.errors import ConfigError, DupeproofError

SEEN = "seen"
"""How `get` calls a key that has a mark and no record."""


class Action(Struct, frozen=True, kw_only=True):
    title: str
    warning: str
    """What the person who confirms should know."""
    event: Event | None = None
    """What it is in the life of a key."""


KEY_ACTIONS = {
    "release": Action(
        title="Release",
        event=Event.REOPEN,
        warning="The work was not done, and the next call with this key runs it again, from its first attempt. If the "
        "effect did happen, it will happen twice: look there first.",
    ),
    "resolve": Action(
        title="Resolve",
        event=Event.RESOLVE,
        warning="The work was done, and later callers are given this result. Its former owner can no longer finish it. "
        "If the effect did not happen, it never will: look there first.",
    ),
    "forget": Action(
        title="Forget",
        event=Event.FORGET,
        warning="The key's record and mark go, and the next call or message with it runs, whatever happened before. An "
        "owner that is still at work is refused later.",
    ),
}
OUTBOX_ACTIONS = {
    "retry": Action(
        title="Retry",
        warning="The message goes back to its place, with all its attempts before it, and is published again.",
    ),
    "drop": Action(
        title="Drop",
        warning="The message is given up for good and never published. What waited behind it goes on.",
    ),
}


class KeyTarget(Struct, frozen=True, kw_only=True):
    """One key and, for `resolve`, what it is closed with."""

    namespace: str
    key: str
    result: str = "null"
    window: str = defaults.WINDOW


def possible(state: str) -> dict[str, Action]:
    """What may be done to a key in this state, by the table of states."""
    if state == SEEN:
        return {"forget": KEY_ACTIONS["forget"]}
    return {
        name: action
        for name, action in KEY_ACTIONS.items()
        if action.event is not None and allows(State(state), action.event)
    }


def chosen(actions: dict[str, Action], name: str) -> Action:
    if name not in actions:
        raise ConfigError(f"there is no such action; there are: {', '.join(actions)}")
    return actions[name]


async def change_key(backend: Backend, name: str, target: KeyTarget) -> bool:
    """Each is one step of the store, which refuses what is no longer so."""
    once = backend.once(target.namespace, window=target.window)
    if name == "release":
        return await once.reopen(target.key)
    if name == "resolve":
        return await once.resolve(target.key, result=json_value(target.result))
    return await once.forget(target.key)


async def move_message(backend: Backend, name: Literal["retry", "drop"], message_id: str) -> bool:
    assert backend.source is not None
    moved = await (backend.source.retry if name == "retry" else backend.source.drop)([message_id])
    return message_id in moved


async def audited(
    request: Request, backend: Backend, name: str, what: str, change: Callable[[], Awaitable[bool]]
) -> str:
    """Do it, with a line in the audit before and after; what came of it, for people."""
    who = backend.who(request)
    backend.audit.write(who=who, did=name, what=what, outcome="begins")
    try:
        outcome = "done" if await change() else "nothing to do: it is not in that state any more"
    except DupeproofError as exc:
        outcome = f"refused: {exc}"
    except BaseException as exc:
        backend.audit.write(who=who, did=name, what=what, outcome=f"unknown: {type(exc).__name__}")
        raise
    backend.audit.write(who=who, did=name, what=what, outcome=outcome)
    return outcome


def json_value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise ConfigError(f'the result is not JSON ({exc}); a text needs its quotes: "paid"') from exc
