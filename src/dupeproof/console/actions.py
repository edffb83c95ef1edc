"""What can be done to a key or a dead message, in words: one table for buttons, confirmations, results and the audit."""

from typing import Any

import msgspec
from msgspec import Struct

from dupeproof.core.states import Event, State, allows
from dupeproof.errors import ConfigError
from dupeproof.guards.results import Entry

SEEN = "seen"
"""How `get` calls a key that has a mark and no record."""


class Action(Struct, frozen=True, kw_only=True):
    title: str
    """On buttons."""
    past: str
    """What was done to a key, in the audit and on the page that says what happened."""
    when: str = ""
    """Of a key: the case in which one does it."""
    one: str
    """What will happen to a single one. What it is follows."""
    many: str
    warning: str
    """What the person who confirms should know."""
    after: str = ""
    """The state it leads to, as people read it."""
    event: Event | None = None
    """What it is in the life of a key."""
    in_bulk: bool = True


KEY_ACTIONS = {
    "resolve": Action(
        title="Resolve with a result",
        when="It was done. Later callers get this result, as JSON:",
        past="resolved",
        event=Event.RESOLVE,
        one="This call counts as done and will not run again:",
        many="These {count} calls count as done and will not run again, all with the same result:",
        after="done, with the result",
        warning="Later callers get the result. Its former owner can no longer finish it. If the work did not happen, "
        "it never will: look there first.",
    ),
    "resolve_empty": Action(
        title="Resolve with no result",
        when="It was done, and has no result.",
        past="resolved with no result",
        event=Event.RESOLVE,
        one="This call counts as done and will not run again:",
        many="These {count} calls count as done and will not run again:",
        after="done, with no result",
        warning="Later callers get null. Its former owner can no longer finish it. If the work did not happen, it never "
        "will: look there first.",
    ),
    "reopen": Action(
        title="Reopen",
        when="It was not done, and should be.",
        past="reopened",
        event=Event.REOPEN,
        one="This call may run again:",
        many="These {count} calls may run again:",
        after="free to run",
        warning="Nothing runs now. The next call with the key runs the work, from its first attempt; steps that are done "
        "are not repeated. If the work did happen after all, it will happen twice: look there first.",
    ),
    "settle": Action(
        title="Settle by lookup",
        when="The lookup can say whether it was done.",
        past="settled",
        event=Event.TAKE,
        one="The lookup was asked about this call, and this is what would happen:",
        many="The lookup was asked about these {count} calls, and this is what would happen:",
        warning="It is asked once more when you confirm, while the key is kept from everybody else. A call of which it then "
        "says something else stays held.",
    ),
    "forget": Action(
        title="Forget",
        when="Nobody needs the record, whatever happened.",
        past="forgotten",
        event=Event.FORGET,
        one="This call may run again, as if it had never come:",
        many="These {count} calls may run again, as if they had never come:",
        after="unknown",
        warning="The record, its steps and the mark of the key go. The next call or message with it runs, whatever happened "
        "before. An owner that is still at work is refused later.",
        in_bulk=False,
    ),
}
OUTBOX_ACTIONS = {
    "retry": Action(
        title="Retry",
        past="put back",
        one="This message will be published again:",
        many="",
        warning="It goes back to its place, with all its attempts before it.",
    ),
    "drop": Action(
        title="Drop",
        past="dropped",
        one="This message is given up for good and never published:",
        many="",
        warning="What waited behind it goes on.",
    ),
}


def possible(entry: Entry, *, lookup: bool) -> dict[str, Action]:
    """What may be done to a key in this state, by the table of states."""
    if entry.state == SEEN:
        return {"forget": KEY_ACTIONS["forget"]}
    state = State.RESOLVED if entry.correctable else State(entry.state)
    return {
        name: action
        for name, action in KEY_ACTIONS.items()
        # A lookup is asked about held keys; others take care of abandoned ones themselves.
        if (name != "settle" or (lookup and state is State.HELD))
        and action.event is not None
        and allows(state, action.event)
    }


def in_bulk(state: str, *, lookup: bool) -> dict[str, Action]:
    """What may be done to many keys of one state at once."""
    found = possible(Entry(state=state, namespace=""), lookup=lookup)
    return {name: action for name, action in found.items() if action.in_bulk}


def chosen(actions: dict[str, Action], name: str) -> Action:
    if name not in actions:
        raise ConfigError(f"there is no such action; there are: {', '.join(actions)}")
    return actions[name]


def json_value(text: str) -> Any:
    if not text.strip():
        raise ConfigError("the result is empty; write it as JSON, or choose to resolve with no result")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise ConfigError(f'the result is not JSON ({exc}); a text needs its quotes: "paid"') from exc
