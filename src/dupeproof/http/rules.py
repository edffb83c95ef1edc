"""The arguments of a middleware turned into what it works with; the same for all frameworks, sync and async."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict
from uuid import UUID

from msgspec import Struct

from dupeproof.core import callables
from dupeproof.core.durations import Duration
from dupeproof.core.events import Listener
from dupeproof.core.policy import OnStoreDown
from dupeproof.errors import ConfigError
from dupeproof.http.keys import SHARED, Shared
from dupeproof.http.statuses import Fate, OnError, of_errors

Scope = Callable[[Any], object] | Shared
Style = Literal["ietf", "stripe"]
_MISMATCH: dict[Style, int] = {"ietf": 422, "stripe": 400}
_METHODS = frozenset({"POST", "PATCH", "PUT", "DELETE"})
_FUNCTIONS = frozenset({"when", "key", "validate", "fingerprint"})


class RequestOptions(TypedDict, total=False):
    """Which requests are guarded, and how they are told apart and answered."""

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
    fingerprint: Callable[[Any, bytes], object]
    """What must be equal in a retry: a function from the request and its body. Everything, unless given or if it fails."""
    on_error: OnError
    """After a 5xx or an exception: `release` the key for another try, as is done unless you say so, `store` the answer, or
    `hold` the key until someone has resolved it, where an effect outside your database must not happen twice."""
    style: Style
    """Whether a key with another request is answered with 422, or as Stripe does with 400."""
    request_limit: int
    """Bytes of a request body; 413 beyond."""
    response_limit: int
    """Bytes of a response that are kept; beyond, it is done and not replayable."""


class GuardOptions(TypedDict, total=False):
    """What the guard promises; given with a URL or a store, not with a guard of your own.

    `namespace`, `window`, `lease`, `max_attempts`, `on_store_down`, `events` and `cache` are those of `Once`.
    """

    namespace: str
    window: Duration
    lease: Duration
    wait: Duration
    """How long a duplicate waits for the first to be answered, before it gets 409. Not at all, unless given."""
    max_attempts: int | None
    on_store_down: OnStoreDown
    events: Iterable[Listener]
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
    """What a client is told to send."""
    find_key: Callable[[Any], object] | None
    validate: Callable[[str], bool] | None
    fingerprint: Callable[[Any, bytes], object] | None
    of_error: Fate
    mismatch_status: int
    request_limit: int
    response_limit: int


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
        of_error=of_errors(options.get("on_error", "release")),
        mismatch_status=_mismatch_status(options.get("style", "ietf")),
        request_limit=_size("request_limit", options.get("request_limit", 32 * 2**20)),
        response_limit=_size("response_limit", options.get("response_limit", 2**20)),
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
    if callables.is_async(scope) and not is_async:
        raise ConfigError(
            "scope= is an async function, and this is a sync middleware; give it a plain function"
        )
    return scope


def _check_functions(options: RequestOptions) -> None:
    """Of one that is async nobody would wait for the answer, which would pass for a yes."""
    for name in _FUNCTIONS & options.keys():
        given = options[name]  # type: ignore[literal-required] # one of its names
        if given is None or (name == "key" and isinstance(given, str)):
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
