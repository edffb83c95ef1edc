"""The arguments of a guard turned into what it works with; shared by the sync and the async class."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec

from dupeproof.core.codecs import Codec
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError, KeyInvalid
from dupeproof.guards.cache import FinishedCache
from dupeproof.guards.functions import Returns, qualified_name
from dupeproof.keys.arguments import KeySpec, compile_key
from dupeproof.keys.bound_arguments import bound_arguments, plain_names
from dupeproof.keys.fingerprints import digest, fields_digest, fingerprint
from dupeproof.keys.names import Key as Key  # noqa: PLC0414 - what guards are given, from one place
from dupeproof.keys.names import check_key
from dupeproof.stores.factory import resolve_store as resolve_store  # noqa: PLC0414

FingerprintSpec = bool | str | Sequence[str] | Callable[..., object]
CallReader = Callable[[tuple[Any, ...], dict[str, Any]], bytes]
T = TypeVar("T")


def make_cache(size: object, longest: Duration) -> FinishedCache | None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ConfigError(f"cache must be a number of records, 0 for none; got {size!r}")
    seconds = milliseconds(longest, name="cache_for") / 1_000
    return FinishedCache(size, seconds) if size else None


def batches(items: Iterable[T], size: object) -> Iterator[list[T]]:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ConfigError(f"batch must be a whole number of at least 1; got {size!r}")
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


class Call:
    """A decorated function's key, fingerprint and return type, worked out once."""

    def __init__(
        self,
        fn: Callable[..., object],
        key: KeySpec,
        name: str | None,
        compare: FingerprintSpec,
        codec: Codec,
    ) -> None:
        self.name = qualified_name(fn, name)
        self.returns = Returns(fn, codec)
        self.fingerprint = call_fingerprint(fn, compare)
        self._value = compile_key(fn, key)

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return check_key(f"{self.name}:{self._value(args, kwargs)}")

    def key_for(self, *args: Any, **kwargs: Any) -> str:
        return self.key(args, kwargs)


def call_fingerprint(fn: Callable[..., object], compare: FingerprintSpec) -> CallReader:
    """What of a call must be the same for two calls to be duplicates, as a digest."""
    if compare is False:
        return lambda _args, _kwargs: b""
    bind = bound_arguments(fn)
    if compare is True:
        names = plain_names(fn) or ()
        digest_of = fields_digest(names)
        count = len(names)

        def of_all(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
            try:
                if count == len(args) and count and not kwargs:
                    return digest_of(args)
                return digest(bind(args, kwargs))
            except KeyInvalid as exc:
                raise KeyInvalid(
                    f"{exc}; choose the arguments to compare with fingerprint=['…'], or none with fingerprint=False"
                ) from exc

        return of_all
    if callable(compare):
        return lambda args, kwargs: digest(compare(*args, **kwargs))
    paths = [compare] if isinstance(compare, str) else list(compare)
    return lambda args, kwargs: digest(fingerprint(bind(args, kwargs), include=paths, exclude=()))


def value_fingerprint(value: object) -> bytes:
    return b"" if value is None else digest(value)


def encode_meta(meta: object) -> bytes:
    if meta is None:
        return b""
    try:
        return msgspec.json.encode(meta)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ConfigError(f"meta= must be made of JSON types: {exc}") from exc
