"""The arguments of a middleware turned into what it works with; the same for all frameworks, sync and async."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict
from uuid import UUID

from msgspec import Struct

from dupeproof import defaults
from dupeproof.core import callables
from dupeproof.core.codecs import Codec
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import Listener
from dupeproof.core.policy import Errors, Lookup, OnStoreDown
from dupeproof.errors import ConfigError
from dupeproof.http.keys import SHARED, Shared
from dupeproof.http.statuses import Fate, OnError, of_errors

Scope = Callable[[Any], object] | Shared
Style = Literal["ietf", "stripe"]
_MISMATCH: dict[Style, int] = {"ietf": 422, "stripe": 400}
_METHODS = frozenset({"POST", "PATCH", "PUT", "DELETE"})
_FUNCTIONS = frozenset({"when", "key", "validate", "fingerprint"})


class RequestOptions(TypedDict, total=False):
    """Which requests are guarded, and how they are compared and answered."""

    methods: Iterable[str]
    """POST and PATCH; PUT and DELETE if you say so."""
    when: Callable[[Any], bool]
    """Which requests of these methods; all of them, unless given."""
    required: bool
    """Whether a request without a key is refused, or handled without a guard, as it is unless you say so."""
    key: str | Callable[[Any], str | int | UUID | None]
    """The name of the header, or a function from the request to the key."""
    validate: Callable[[str], bool]
    """Which keys are welcome, of those that are well-formed."""
    fingerprint: Literal["json"] | Callable[[Any, bytes], object]
    """What must be equal in a retry, beside method and path, of which a slash at the end does not count. Query, media type and body unless given. `"json"`: the query,
    and what a JSON body says, whatever the order of its fields. Or a function from the request and its body; if it fails,
    all of the request counts."""
    headers: Iterable[str]
    """Headers that must be equal in a retry, too, such as `("If-Match",)`."""
    authorize: Callable[[Any], object]
    """Asked before every answer that comes from the store, which the app's own checks do not see: a function from the
    request. False is answered with 403; an HTTPException as the framework does. Async where the middleware is."""
    on_error: OnError
    """After a 5xx or an exception: `reopen` the key for another attempt, as is done unless you say so, `store` the answer, or
    `hold` the key until someone has resolved it, where an effect outside your database must not happen twice."""
    style: Style
    """Whether a key with another request is answered with 422, or as Stripe does with 400."""
    request_limit: int
    """Bytes of a request body; 413 beyond."""
    response_limit: int
    """Bytes of a response that are kept; beyond, it is done and not replayable."""
    stream_after: Duration
    """A response without a length is held back until it is whole, to be stored. If that takes longer than this, 1 s unless
    given, it is a stream, which goes out as it comes and is done and not replayable. Server-sent events, and what is sent
    with `X-Accel-Buffering: no`, are streams from the first byte."""


class GuardOptions(TypedDict, total=False):
    """What the guard promises; given with a URL or a store, not with a guard of your own.

    `namespace`, `window`, `lease`, `max_attempts`, `hold_on`, `settle`, `keep_keys`, `on_store_down`, `events`, `codec` and
    `cache` are those of `Once`. A `codec` of your own, one that encrypts, say, is given the bytes of each response. A lookup
    is given the entry alone, and gives `Done` with an `Answer`, or with a value that is sent as JSON. With `hold_on`, a 5xx
    whose error the guard did not see holds the key too.
    """

    namespace: str
    window: Duration
    lease: Duration
    wait: Duration
    """How long a duplicate waits for the first to be answered, before it gets 409. Not at all, unless given."""
    max_attempts: int | None
    hold_on: Errors
    settle: Lookup
    keep_keys: bool
    on_store_down: OnStoreDown
    events: Iterable[Listener]
    codec: Codec
    cache: int


class Options(RequestOptions, GuardOptions, total=False):
    """All of a middleware's options but `store` and `scope`."""


class Rules(Struct, frozen=True):
    scope: Scope
    methods: frozenset[str]
    when: Callable[[Any], bool] | None
    required: bool
    header: str
    the_key: str
    """The header that the error message names."""
    find_key: Callable[[Any], object] | None
    validate: Callable[[str], bool] | None
    fingerprint: Literal["json"] | Callable[[Any, bytes], object] | None
    headers: tuple[str, ...]
    authorize: Callable[[Any], Any] | None
    of_error: Fate
    of_unseen_error: Fate
    """Of a 5xx, where nobody knows what it answers."""
    holds_all: bool
    """There is no error that leaves no doubt, but for those that are answers."""
    mismatch_status: int
    request_limit: int
    response_limit: int
    stream_after: float
    """Seconds."""


def make_rules(scope: Scope, options: RequestOptions, *, is_async: bool) -> Rules:
    _check_functions(options)
    key = options.get("key", "Idempotency-Key")
    return Rules(
        scope=_scope(scope, is_async=is_async),
        methods=chosen_methods(options.get("methods", ("POST", "PATCH"))),
        when=options.get("when"),
        required=options.get("required", False),
        header=key if isinstance(key, str) else "Idempotency-Key",
        the_key=f"the header {key}" if isinstance(key, str) else "an idempotency key",
        find_key=None if isinstance(key, str) else key,
        validate=options.get("validate"),
        fingerprint=options.get("fingerprint"),
        headers=_headers(options.get("headers", ())),
        authorize=_authorize(options.get("authorize"), is_async=is_async),
        of_error=of_errors(options.get("on_error", "reopen")),
        of_unseen_error=of_errors(options.get("on_error", "reopen")),
        holds_all=False,
        mismatch_status=_mismatch_status(options.get("style", "ietf")),
        request_limit=_size("request_limit", options.get("request_limit", 32 * 2**20)),
        response_limit=_size("response_limit", options.get("response_limit", defaults.RESPONSE_LIMIT)),
        stream_after=milliseconds(options.get("stream_after", defaults.STREAM_AFTER), name="stream_after")
        / 1_000,
    )


def split_options(options: Options) -> tuple[RequestOptions, GuardOptions]:
    of_requests = {name: value for name, value in options.items() if name in RequestOptions.__annotations__}
    of_guard = {name: value for name, value in options.items() if name in GuardOptions.__annotations__}
    unknown = options.keys() - of_requests.keys() - of_guard.keys()
    if unknown:
        known = ", ".join(Options.__annotations__)
        raise ConfigError(f"there is no option {min(unknown)!r}; there are store, scope, {known}")
    return of_requests, of_guard  # type: ignore[return-value] # as chosen by their names


def _scope(scope: Scope, *, is_async: bool) -> Scope:
    if scope is SHARED:
        return scope
    if not callable(scope):
        raise ConfigError(
            "scope= says whose key it is: a function from the request to a stable id of the caller, such as "
            "lambda request: request.user.id; or scope=SHARED if all callers may see each other's responses"
        )
    _check_kind("scope", scope, is_async=is_async)
    return scope


def _authorize(given: Callable[[Any], object] | None, *, is_async: bool) -> Callable[[Any], object] | None:
    if given is None:
        return None
    if not callable(given):
        raise ConfigError(
            "authorize= takes a function from the request that says whether a stored response may be given out; "
            f"got a {type(given).__qualname__}"
        )
    _check_kind("authorize", given, is_async=is_async)
    return given


def _check_kind(name: str, function: Callable[..., object], *, is_async: bool) -> None:
    if callables.is_async(function) and not is_async:
        raise ConfigError(
            f"{name}= is an async function, and this is a sync middleware; give it a plain function"
        )


def _headers(names: Iterable[str]) -> tuple[str, ...]:
    """In lower case and sorted, so that their order in the settings does not count."""
    chosen = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in chosen) or "" in chosen:
        raise ConfigError(f"headers= takes names of headers, such as ('If-Match',); got {names!r}")
    return tuple(sorted({name.lower() for name in chosen}))


def _check_functions(options: RequestOptions) -> None:
    """Of one that is async nobody would wait for the answer, which would pass for a yes."""
    for name in _FUNCTIONS & options.keys():
        given = options[name]  # type: ignore[literal-required] # one of its names
        if given is None or (name == "key" and isinstance(given, str)):
            continue
        if name == "fingerprint" and given == "json":
            continue
        if not callable(given) or callables.is_async(given):
            raise ConfigError(f"{name}= takes a plain function, not an async one; got {_kind(given)}")


def _kind(given: object) -> str:
    return "an async function" if callable(given) else f"a {type(given).__qualname__}"


def chosen_methods(methods: Iterable[str]) -> frozenset[str]:
    """In upper case, as requests have them."""
    chosen = frozenset(method.upper() for method in ([methods] if isinstance(methods, str) else methods))
    if not chosen <= _METHODS or not chosen:
        raise ConfigError(
            f"methods= may name {', '.join(sorted(_METHODS))}; got {', '.join(sorted(chosen)) or 'none'}"
        )
    return chosen


def _mismatch_status(style: Style) -> int:
    try:
        return _MISMATCH[style]
    except KeyError:
        raise ConfigError(f"style must be one of {', '.join(map(repr, _MISMATCH))}; got {style!r}") from None


def _size(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ConfigError(f"{name} is a number of bytes; got {value!r}")
