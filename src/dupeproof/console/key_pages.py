"""The pages that show keys: lists by state, and one key with its steps and its history."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dupeproof import defaults
from dupeproof.console.actions import SEEN, in_bulk, possible
from dupeproof.console.changes import Known, known
from dupeproof.console.forms import SHOWN_DIGITS, fields, page, path_to
from dupeproof.console.listed_keys import MOST_AT_ONCE, PAGE, Wanted
from dupeproof.console.request_limits import Backend, desk_of
from dupeproof.core.protocols import AsyncListable, ability
from dupeproof.core.records import Listed
from dupeproof.errors import ConfigError, NotReplayable
from dupeproof.guards.listings import LISTED_STATES
from dupeproof.guards.results import Entry
from dupeproof.keys.names import check_key, check_namespace, key_digest

_DIGITS = re.compile("[0-9a-fA-F]{8,32}")
_WHOLE = 32
_MOST_CANDIDATES = 10
_MOST_CHOICES = 50
_PATIENCE = 10.0


class Choice(Struct, frozen=True):
    value: str
    count: int


async def keys(request: Request) -> Response:
    """A list of the keys in one state. GET: what is in the address are names of ours, never a key."""
    if request.method == "POST":
        return await _find(request)
    backend = desk_of(request)
    wanted = wanted_of(dict(request.query_params))
    if "again" in request.query_params:
        backend.keys.look_again(wanted)
    number = _page_number(request.query_params.get("page", "1"))
    matches = await backend.keys.matches(wanted)
    pages = max(1, -(-len(matches.listed) // PAGE))
    number = min(number, pages)
    shown = matches.listed[(number - 1) * PAGE : number * PAGE]
    waiting = await backend.keys.waiting()
    here = msgspec.to_builtins(wanted)
    return page(
        request,
        "keys.html",
        wanted=wanted,
        matches=matches,
        entries=await _as_they_stand(backend, shown, wanted.state),
        first=(number - 1) * PAGE + 1,
        number=number,
        pages=pages,
        at=lambda **changed: f"{path_to(request, 'keys')}?{urlencode(_given(here | changed))}",
        states=[
            (state, None if waiting.value is None else waiting.value.counts[state]) for state in LISTED_STATES
        ],
        choices=_choices(matches.kinds),
        actions=in_bulk(wanted.state, lookup=backend.lookup is not None),
        most=MOST_AT_ONCE,
        size=PAGE,
    )


async def key(request: Request) -> Response:
    """One key. Its digest may stand in the address, as it stands in logs."""
    backend = desk_of(request)
    digest = request.path_params["digest"].lower()
    if not _DIGITS.fullmatch(digest) or len(digest) != _WHOLE:
        raise ConfigError("this is not the digest of a key; find the key by what you know of it")
    [found] = await known(backend, [digest], request.query_params.get("namespace", ""))
    return page(
        request,
        "key.html",
        digest=digest,
        entry=None if found is None else found.entry,
        window=None if found is None else found.window,
        actions={} if found is None else possible(found.entry, lookup=backend.lookup is not None),
        result=None if found is None else _result(backend, found.entry),
        audit=backend.audit.lines(digest[:SHOWN_DIGITS]),
    )


async def _find(request: Request) -> Response:
    """The key travels in the body of a POST, not in the address: addresses are logged and remembered."""
    backend = desk_of(request)
    given = await fields(request)
    namespace = check_namespace(given.get("namespace", defaults.NAMESPACE).strip())
    text = check_key(given.get("key"))
    found = await _candidates(backend, namespace, text)
    if len(found) == 1:
        [entry] = found
        query = f"?{urlencode({'namespace': namespace})}" if entry.state == SEEN else ""
        return RedirectResponse(path_to(request, "key", digest=entry.digest) + query, status_code=303)
    return page(
        request,
        "found.html",
        status=200 if found else 404,
        namespace=namespace,
        key=text,
        entries=found,
        digest=key_digest(namespace)(text).hex(),
        most=_MOST_CANDIDATES,
    )


async def _candidates(backend: Backend, namespace: str, text: str) -> list[Entry]:
    """The key itself, or else those whose digest begins with what was typed."""
    digests = [key_digest(namespace)(text).hex()]
    typed = text.strip().lower()
    if _DIGITS.fullmatch(typed):
        listable = ability(backend.store, AsyncListable)  # type: ignore[type-abstract]
        if len(typed) == _WHOLE:
            digests.append(typed)
        elif listable is not None:
            try:
                async with asyncio.timeout(_PATIENCE):  # a Redis looks through a part of its keys
                    found = await listable.find(typed, _MOST_CANDIDATES)
            except TimeoutError:
                raise ConfigError(
                    "the store takes too long to look for these digits; give all 32 digits of the digest"
                ) from None
            digests += [digest.hex() for digest in found]
    by_key, *by_digits = await known(backend, digests, namespace)
    if by_key is not None:
        return [by_key.entry]
    return [each.entry for each in by_digits if each is not None]


def wanted_of(given: dict[str, str]) -> Wanted:
    wanted = {name: given[name] for name in Wanted.__struct_fields__ if given.get(name)}
    found = Wanted(**wanted)
    found.listing(1)  # refuses a state or an order that does not exist
    return found


async def _as_they_stand(backend: Backend, listed: Sequence[Listed], state: str) -> list[Entry]:
    """What a walk found may have changed since."""
    now: list[Known | None] = await known(backend, [each.key.hex() for each in listed])
    return [each.entry for each in now if each is not None and each.entry.state == state]


def _choices(kinds: Counter[tuple[str, str, str]]) -> dict[str, list[Choice]]:
    """What there is to filter by, the most frequent first."""
    found: dict[str, list[Choice]] = {}
    for place, name in enumerate(("namespace", "name", "error")):
        counts: Counter[str] = Counter()
        for kind, count in kinds.items():
            counts[kind[place]] += count
        found[name] = [Choice(*each) for each in counts.most_common(_MOST_CHOICES) if each[0]]
    return found


def _given(query: dict[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in query.items()
        if value not in ("", 1) and (name, value) != ("order", "oldest")
    }


def _page_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise ConfigError("the page is a number")
    return max(1, int(text))


def _result(backend: Backend, entry: Entry) -> str | None:
    if not backend.show_results or entry.state != "done":
        return None
    try:
        return msgspec.json.format(msgspec.json.encode(entry.result)).decode()
    except NotReplayable as exc:
        return f"({exc})"
