"""The arguments of a guard turned into what it works with; shared by the sync and the async class."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

from dupeproof.core.codecs import Codec
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.records import Mark
from dupeproof.core.tokens import new_token
from dupeproof.errors import ConfigError
from dupeproof.guards.cache import FinishedCache
from dupeproof.guards.functions import Returns, qualified_name
from dupeproof.keys.arguments import KeySpec, compile_key
from dupeproof.keys.canonical import canonical
from dupeproof.keys.fingerprints import FingerprintSpec, call_fingerprint, digest
from dupeproof.keys.names import Key as Key  # noqa: PLC0414 - what guards are given, from one place
from dupeproof.keys.names import check_key, check_namespace, key_digest
from dupeproof.stores.factory import resolve_store as resolve_store  # noqa: PLC0414

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
        self.key = compile_key(fn, key, prefix=f"{self.name}:")

    def key_for(self, *args: Any, **kwargs: Any) -> str:
        return self.key(args, kwargs)


def value_fingerprint(value: object) -> bytes:
    return b"" if value is None else digest(value)


def encode_meta(meta: object) -> bytes:
    if meta is None:
        return b""
    try:
        return msgspec.json.encode(meta)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ConfigError(f"meta= must be made of JSON types: {exc}") from exc


class SlotNames:
    """Cooldown slots: one action on one entity, with or without data, as a mark only its maker can take back."""

    def __init__(self, namespace: str) -> None:
        # No namespace of a user's can hold a slash, so slots and marks never meet.
        self._digest = key_digest(f"cooldown/{check_namespace(namespace)}")

    def mark(self, entity: object, action: object, within: Duration, data: object) -> Mark:
        window = milliseconds(within, name="within")
        return Mark(self.digest(entity, action, data), window, token=new_token())

    def digest(self, entity: object, action: object, data: object) -> bytes:
        parts: list[object] = [check_key(entity), check_key(action)]
        return self._digest(canonical(parts if data is None else [*parts, data]).decode())
