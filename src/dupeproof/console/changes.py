"""What will happen to exactly which keys, and then that and nothing else: a key that changed meanwhile is left.

What is confirmed are keys as they were seen: digest, state, and the token of the claim that brought them there. The store
makes each change in one step that compares the token, so of two people who settle the same key one does, and the other is
told so.
"""

import asyncio
import inspect
import os
import re
import threading
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from dupeproof import defaults
from dupeproof.console.actions import KEY_ACTIONS, chosen, json_value, possible
from dupeproof.console.forms import SHOWN_DIGITS
from dupeproof.console.request_limits import Backend
from dupeproof.core import callables
from dupeproof.core.codecs import JsonCodec, Unstorable
from dupeproof.core.durations import milliseconds
from dupeproof.core.events import logger
from dupeproof.core.policy import Lookup
from dupeproof.core.protocols import AsyncSeenSet
from dupeproof.core.records import Finish, Release
from dupeproof.errors import ConfigError, DupeproofError, StoreUnavailable
from dupeproof.guards.claims_async import AsyncClaim
from dupeproof.guards.lookups import Done, NotDone, Settlement, Unknown, check_settlement
from dupeproof.guards.results import Entry, make_entry

MOST_ASKED = 100
"""Keys that a lookup is asked about at once."""
_TOGETHER = 8
_BATCH = 100
_PATIENCE = 10.0
"""Seconds for one answer of a lookup."""
_SEEN = re.compile(r"([0-9a-f]{32})\.([a-z]+)\.([0-9a-f]{0,64})(?:\.([a-z_]+-?[0-9a-f]*))?")


class Seen(Struct, frozen=True, kw_only=True):
    """A key as somebody saw it when they were asked."""

    digest: str
    state: str
    token: bytes = b""
    answer: str = ""
    """What its lookup said, and a digest of the value."""

    @property
    def text(self) -> str:
        return ".".join([self.digest, self.state, self.token.hex(), *([self.answer] if self.answer else [])])


class Known(Struct, frozen=True):
    """A key as it stands."""

    entry: Entry
    token: bytes
    window: int


class Planned(Struct, frozen=True, kw_only=True):
    """What will happen to one key."""

    entry: Entry
    seen: Seen | None
    """None for one that is left as it is."""
    after: str


class Outcome(Struct, frozen=True, kw_only=True):
    """What happened to one key."""

    digest: str
    changed: bool
    text: str
    entry: Entry | None = None


class Order(Struct, frozen=True, kw_only=True):
    """What is to be done, to all keys that are chosen."""

    action: str
    result: bytes = b"null"
    """As it is stored."""
    window: int | None = None


def make_order(action: str, result: str, window: str) -> Order:
    chosen(KEY_ACTIONS, action)
    value = json_value(result) if action == "resolve" else None
    return Order(
        action=action,
        result=JsonCodec().encode(value, Any),
        window=milliseconds(window, name="the window") if window.strip() else None,
    )


def read_seen(text: str) -> list[Seen]:
    """The keys that a confirmation carries."""
    forms = [_SEEN.fullmatch(word) for word in text.split()]
    if not forms or None in forms:
        raise ConfigError("which keys? Choose them in a list, or find one")
    return [
        Seen(digest=form[1], state=form[2], token=bytes.fromhex(form[3]), answer=form[4] or "")
        for form in forms
        if form is not None
    ]


async def known(backend: Backend, digests: Sequence[str], namespace: str = "") -> list[Known | None]:
    """The keys as they stand, in two questions to the store; None for one of which nothing is known."""
    keys = list(map(bytes.fromhex, digests))
    records = await backend.store.get(keys) if keys else []
    marks = (
        await backend.store.marks(keys)
        if keys and isinstance(backend.store, AsyncSeenSet)
        else [None] * len(keys)
    )
    found: list[Known | None] = []
    for key, record, mark in zip(keys, records, marks, strict=True):
        entry = make_entry(namespace, key, record, mark)
        if entry is None:
            found.append(None)
        else:
            there = None if record is None else record.record
            found.append(
                Known(entry, b"" if there is None else there.token, 0 if there is None else there.window)
            )
    return found


async def plan(backend: Backend, action: str, digests: Sequence[str]) -> list[Planned]:
    """What would happen now. Changes nothing; a lookup is asked."""
    now = [each for each in await known(backend, digests) if each is not None]
    able = [action in possible(each.entry, lookup=backend.lookup is not None) for each in now]
    answers: dict[str, tuple[str, str]] = {}
    if action == "settle":
        asked = [each.entry for each, can in zip(now, able, strict=True) if can]
        if len(asked) > MOST_ASKED:
            raise ConfigError(f"a lookup is asked about at most {MOST_ASKED} keys at once; choose fewer")
        answers = await _ask_all(backend, asked)
    return [_planned(action, each, can, answers) for each, can in zip(now, able, strict=True)]


async def carry_out(backend: Backend, order: Order, confirmed: Sequence[Seen], who: str) -> list[Outcome]:
    """Each is in the audit before and after."""
    outcomes: list[Outcome] = []
    did = order.action.partition("_")[0]
    for first in range(0, len(confirmed), _BATCH):
        batch = confirmed[first : first + _BATCH]
        begun = [backend.audit.begin(who=who, did=did, what=seen.digest[:SHOWN_DIGITS]) for seen in batch]
        try:
            made = await _made(backend, order, batch)
        except DupeproofError as exc:
            certain = not isinstance(exc, StoreUnavailable) or exc.refused
            text = f"refused: {exc}" if certain else f"not known, look at it again: {exc}"
            made = [Outcome(digest=seen.digest, changed=False, text=text) for seen in batch]
        except BaseException as exc:
            for line in begun:
                backend.audit.end(line, f"unknown: {type(exc).__name__}")
            raise
        for line, outcome in zip(begun, made, strict=True):
            backend.audit.end(line, outcome.text)
        outcomes += made
    backend.changed()
    return outcomes


async def _made(backend: Backend, order: Order, batch: Sequence[Seen]) -> list[Outcome]:
    now = await known(backend, [seen.digest for seen in batch])
    good = [
        (seen, each)
        for seen, each in zip(batch, now, strict=True)
        if each is not None and (each.entry.state, each.token) == (seen.state, seen.token)
    ]
    made = await _changes(backend, order, good)
    said = {seen.digest: each for (seen, _), each in zip(good, made, strict=True)}
    return [
        Outcome(
            digest=seen.digest,
            changed=said[seen.digest][0] if seen.digest in said else False,
            text=said[seen.digest][1] if seen.digest in said else _left(each),
            entry=None if each is None else each.entry,
        )
        for seen, each in zip(batch, now, strict=True)
    ]


_MEANWHILE = "left as it is: somebody changed it meanwhile"
_GONE = "left: nothing is known of it any more"
_AFTER_ASKING = {
    "done": (True, "settled: done, with what the lookup said"),
    "step": (True, "settled: a step is done, with what the lookup said, and the call may run again"),
    "not_done": (True, "settled: not done, so it may run again"),
    "unknown": (False, "left held: the lookup says something else now"),
    "failed": (False, "left held: the lookup failed; the log says why"),
    "gone": (False, _MEANWHILE),
}


def _left(now: Known | None) -> str:
    return _GONE if now is None else f"{_MEANWHILE}, and it is {now.entry.state} now"


async def _changes(
    backend: Backend, order: Order, good: Sequence[tuple[Seen, Known]]
) -> list[tuple[bool, str]]:
    """Of each whether it was changed, and what there is to say."""
    if not good:
        return []
    if order.action == "settle":
        return await _settle(backend, good)
    keys = [bytes.fromhex(seen.digest) for seen, _ in good]
    windows = [each.window or milliseconds(defaults.WINDOW) for _, each in good]
    tokens = [each.token for _, each in good]
    if order.action == "forget":
        made, otherwise = await backend.store.forget(keys), _GONE
    elif order.action == "reopen":
        made, otherwise = (
            await backend.store.release(
                [Release(*each, reopen=True) for each in zip(keys, tokens, windows, strict=True)]
            ),
            _MEANWHILE,
        )
    else:
        closing = [
            Finish(
                key,
                token,
                window if order.window is None else order.window,
                order.result,
                JsonCodec.name,
                resolver=os.urandom(8),
            )
            for key, token, window in zip(keys, tokens, windows, strict=True)
        ]
        made, otherwise = await backend.store.finish(closing), _MEANWHILE
    past = KEY_ACTIONS[order.action].past
    return [(each, past if each else otherwise) for each in made]


async def _settle(backend: Backend, good: Sequence[tuple[Seen, Known]]) -> list[tuple[bool, str]]:
    turn = asyncio.Semaphore(_TOGETHER)

    async def one(seen: Seen, now: Known) -> tuple[bool, str]:
        async def ask(entry: Entry) -> Settlement:
            answer = await _ask(backend.lookup, entry)
            return answer if _named(answer) == seen.answer else Unknown()

        async with turn:
            claim = AsyncClaim(backend.claims(), "", Any, b"")
            said = await claim.settle_with(ask, now.entry, now.token)
            return _AFTER_ASKING["step" if said == "not_done" and seen.answer.startswith("step") else said]

    return list(await asyncio.gather(*(one(seen, now) for seen, now in good)))


def _planned(action: str, now: Known, able: bool, answers: dict[str, tuple[str, str]]) -> Planned:
    entry = now.entry
    if not able:
        return Planned(entry=entry, seen=None, after=f"left as it is: it is {entry.state}")
    answer, after = answers.get(entry.digest, ("", KEY_ACTIONS[action].after))
    if action == "settle" and not answer:
        return Planned(entry=entry, seen=None, after=after)
    seen = Seen(digest=entry.digest, state=entry.state, token=now.token, answer=answer)
    return Planned(entry=entry, seen=seen, after=after)


async def _ask_all(backend: Backend, entries: Sequence[Entry]) -> dict[str, tuple[str, str]]:
    """For each digest what was answered, and what would come of it. The first is empty where nothing would."""
    turn = asyncio.Semaphore(_TOGETHER)

    async def one(entry: Entry) -> tuple[str, str]:
        async with turn:
            try:
                answer = await _ask(backend.lookup, entry)
            except Exception as exc:
                logger.exception("key %s stays held: its lookup failed", entry.digest[:SHOWN_DIGITS])
                why = (
                    "did not answer in time"
                    if isinstance(exc, TimeoutError)
                    else f"failed with {type(exc).__name__}"
                )
                return "", f"stays held: the lookup {why}"
        if isinstance(answer, Unknown):
            return "", "stays held: the lookup does not know"
        if isinstance(answer, NotDone):
            return _named(answer), "free to run: the lookup says it was not done"
        shown = f" {_json(answer).decode(errors='replace')[:200]}" if backend.show_results else " a result"
        if answer.step is not None and entry.steps.get(answer.step) != "begun":
            return "", f"stays held: the lookup speaks of the step {answer.step}, which is not begun"
        if answer.step is not None:
            return _named(
                answer
            ), f"free to run: its step {answer.step} is done, with{shown}, and is not repeated"
        return _named(answer), f"done, with{shown}"

    answers = await asyncio.gather(*map(one, entries))
    return dict(zip([entry.digest for entry in entries], answers, strict=True))


def _json(answer: Done) -> bytes:
    try:
        return JsonCodec().encode(answer.value, Any)
    except Unstorable:
        return b"what cannot be stored"


def _named(answer: Settlement) -> str:
    """Two answers of one name mean the same."""
    if isinstance(answer, Done):
        kind = "done" if answer.step is None else "step"
        what = b"\0".join([(answer.step or "").encode(), _json(answer)])
        return f"{kind}-{sha256(what).hexdigest()[:16]}"
    return "not_done" if isinstance(answer, NotDone) else "unknown"


async def _ask(lookup: Lookup | None, entry: Entry) -> Settlement:
    assert lookup is not None
    async with asyncio.timeout(_PATIENCE):
        answer = lookup(entry) if callables.is_async(lookup) else await _in_thread(lambda: lookup(entry))
        if inspect.isawaitable(answer):
            answer = await answer
    return check_settlement(answer, lookup)


async def _in_thread(function: Callable[[], Any]) -> Any:
    """In a thread of its own, which a lookup that never answers keeps and nothing else waits for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def tell(give: Callable[[Any], None], what: Any) -> None:
        if not future.done():
            give(what)

    def go() -> None:
        try:
            give, what = future.set_result, function()
        except BaseException as exc:  # noqa: BLE001 - it is raised where it was asked for
            # What would end this process, such as sys.exit(), is an error of the lookup like any other.
            give = future.set_exception
            what = exc if isinstance(exc, Exception) else RuntimeError(type(exc).__name__)
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, give, what)

    threading.Thread(target=go, daemon=True, name="dupeproof-lookup").start()
    return await future
