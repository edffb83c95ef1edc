"""The fingerprint of a request: which of its parts must be equal for it to count as the same request."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from dupeproof.errors import ConfigError, KeyInvalid, KeyMissing
from dupeproof.keys.arguments import bound_arguments, plain_names
from dupeproof.keys.canonical import MAX_DEPTH, canonical
from dupeproof.keys.models import Partial, class_name
from dupeproof.keys.names import DIGEST_SIZE
from dupeproof.keys.paths import Pattern, advance, children, parse_patterns
from dupeproof.keys.scalars import EXACT, quote

VOLATILE = (
    "timestamp",
    "request_id",
    "requestId",
    "correlation_id",
    "correlationId",
    "trace_id",
    "traceId",
    "traceparent",
    "tracestate",
    "sent_at",
    "sentAt",
    "retry_count",
    "retryCount",
)
"""What changes between two tries of one request. At the top level only: deeper, a timestamp is usually content."""


def fingerprint(
    request: object, *, include: Iterable[str] | None = None, exclude: Iterable[str] = VOLATILE
) -> str:
    """64 hex digits that are equal exactly when the chosen parts of two requests are.

    Paths are names joined by dots, from the top: `order.id`. A step is the key of a dict, the field of an object
    (dataclass, attrs, msgspec, pydantic) or the index in a list; `*` is any one step, `**` any number of them:

        amount              the field at the top, and no other of that name
        items.0.price       of the first item
        items.*.price       of every item
        **.timestamp        at any depth

    `include` chooses what counts; a path that matches nothing is an error (KeyMissing), for a misspelt one would make
    strangers equal. `exclude` then takes parts away; a path that matches nothing is fine. VOLATILE is excluded unless
    you give one of the two; to add to it write `exclude=(*VOLATILE, "meta.sent")`.
    """
    if include is None:
        left_out = parse_patterns(exclude, what="exclude")
        return sha256(canonical(_without(request, left_out, 0), name="request")).hexdigest()
    left_out = [] if exclude is VOLATILE else parse_patterns(exclude, what="exclude")
    wanted = parse_patterns(include, what="include")
    if not wanted:
        raise ConfigError(
            "include= names nothing, so all requests would be equal; name a path, or leave it away"
        )
    chosen: dict[tuple[Any, ...], bytes] = {}
    for pattern in wanted:
        path = ".".join(pattern)
        found = list(_matches(request, {pattern}, _Part((), (), request)))
        if not found:
            raise KeyMissing(f"the request has nothing at {path!r}, which include= names")
        for part in found:
            rest = _left_after(left_out, part.steps)
            if () not in rest:
                kept = _without(part.value, rest, len(part.steps))
                # Each part with its own path, so that it cannot pass for another.
                chosen[part.keys] = b"[%b,%b]" % (
                    canonical(part.keys),
                    canonical(kept, name=f"request.{path}"),
                )
    return sha256(b"[%b]" % b",".join(sorted(chosen.values()))).hexdigest()


FingerprintSpec = bool | str | Sequence[str] | Callable[..., object]
CallReader = Callable[[tuple[Any, ...], dict[str, Any]], bytes]


class _Part(NamedTuple):
    """A part of a request: the path as patterns see it, the keys as they are (1 and "1" differ), and what is there."""

    steps: Pattern
    keys: tuple[Any, ...]
    value: Any


def digest(value: object, *, name: str = "payload") -> bytes:
    """The 16-byte digest of the whole value's canonical form; what guards compare calls by."""
    return _digest(canonical(value, name=name))


def call_digest(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The digest of `[args, kwargs]`, put together from its two halves: the second is empty for most calls."""
    named = canonical(kwargs, name="kwargs") if kwargs else b"{}"
    return _digest(b"[%b,%b]" % (canonical(args, name="args"), named))


def fields_digest(names: Sequence[str], otherwise: CallReader) -> CallReader:
    """A function from a call to the digest of `dict(zip(names, args))`, with all that the names decide done beforehand.

    Calls that do not give a plain value for each name, in this order, are left to `otherwise`.
    """
    fields = [(f"{quote(name)}:", names.index(name)) for name in sorted(names)]
    count = len(names)

    def digest_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        if kwargs or len(args) != count:
            return otherwise(args, kwargs)
        parts = []
        for label, place in fields:
            value = args[place]
            kind = type(value)
            if kind is int and -EXACT <= value <= EXACT:
                parts.append(f"{label}{value!r}")
            elif kind is str and value.isascii():
                parts.append(f"{label}{quote(value)}")
            else:
                return otherwise(args, kwargs)
        hasher = _blank.copy()
        hasher.update(f"{{{','.join(parts)}}}".encode())
        return hasher.digest()

    return digest_of


def call_fingerprint(fn: Callable[..., object], compare: FingerprintSpec) -> CallReader:
    """What of a call must be the same for two calls to be duplicates, as a digest."""
    if compare is False:
        return lambda _args, _kwargs: b""
    bind = bound_arguments(fn)
    if compare is True:

        def of_all(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
            try:
                return digest(bind(args, kwargs))
            except KeyInvalid as exc:
                raise KeyInvalid(
                    f"{exc}; choose the arguments to compare with fingerprint=['…'], or none with fingerprint=False"
                ) from exc

        names = plain_names(fn)
        return of_all if names is None else fields_digest(names, of_all)
    if callable(compare):
        return lambda args, kwargs: digest(compare(*args, **kwargs))
    paths = [compare] if isinstance(compare, str) else list(compare)
    return lambda args, kwargs: digest(fingerprint(bind(args, kwargs), include=paths, exclude=()))


_blank = blake2b(digest_size=DIGEST_SIZE)


def _digest(data: bytes) -> bytes:
    hasher = _blank.copy()  # half the price of making one
    hasher.update(data)
    return hasher.digest()


def _matches(value: Any, patterns: set[Pattern], at: _Part) -> Iterator[_Part]:
    if () in patterns:
        yield at
    elif patterns and len(at.steps) <= MAX_DEPTH:  # deeper than canonical goes there is only a cycle
        for step, key, item in children(value) or ():
            part = _Part((*at.steps, step), (*at.keys, key), item)
            yield from _matches(item, advance(patterns, step), part)


def _left_after(patterns: Iterable[Pattern], path: Pattern) -> set[Pattern]:
    """What the patterns still have to match below the path; with an empty one, the path itself lies in a match."""
    left = set(patterns)
    for step in path:
        if () in left:
            break
        left = advance(left, step)
    return left


def _without(value: Any, patterns: Iterable[Pattern], depth: int) -> Any:
    """The value less the parts the patterns match; itself where they match nothing."""
    if not patterns or depth > MAX_DEPTH or (parts := children(value)) is None:
        return value
    kept: list[tuple[Any, Any]] = []
    same = True
    for step, key, item in parts:
        left = advance(patterns, step)
        if () in left:
            same = False
            continue
        pruned = _without(item, left, depth + 1)
        same = same and pruned is item
        kept.append((key, pruned))
    if same:
        return value
    if isinstance(value, list | tuple):
        return [item for _, item in kept]
    return dict(kept) if isinstance(value, dict) else Partial(class_name(value), dict(kept))
