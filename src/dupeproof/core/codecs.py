"""Values to bytes and back, typed by the return annotation. JSON by msgspec unless the user brings a codec.

What can be known before the work is checked before the work: `prepare` refuses a return type that could never be
read back. What only shows afterwards (`-> Any` returning a socket, a NaN, a value that would come back changed) raises
`Unstorable`, and the guard finishes the claim as "done, not replayable".
"""

import math
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec import inspect

from dupeproof.errors import ConfigError

_PLAIN = (int, str, bool, float, type(None))
_ORIGIN = b"\x1e"
"""No JSON text begins with it."""
_CONTAINERS = (list, tuple, set, frozenset, dict)


class Unstorable(Exception):
    """The value cannot be stored."""


class Codec(Protocol):
    """A codec of your own: its name is stored with each value, and reading needs the same one."""

    @property
    def name(self) -> str: ...

    def encode(self, value: Any, returns: Any) -> bytes:
        """The bytes to store; any exception means that the value cannot be replayed."""
        ...

    def decode(self, data: bytes, returns: Any) -> Any: ...

    def prepare(self, returns: Any) -> None:
        """Raise `ConfigError` if values of this type could never be stored and read back."""
        ...


class JsonCodec:
    """msgspec JSON: dataclasses, msgspec and pydantic models, datetime, Decimal, UUID, bytes, enums, sets."""

    name = "json"

    def __init__(self) -> None:
        self._encode: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=_to_builtin).encode
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def encode(self, value: Any, returns: Any = Any) -> bytes:
        try:
            data = self._encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            raise Unstorable(f"a {type(value).__qualname__} cannot be stored as JSON") from exc
        # msgspec writes a NaN as null; looking for one costs only the values that hold a null.
        if b"null" in data and _has_nonfinite(msgspec.to_builtins(value, enc_hook=_to_builtin)):
            raise Unstorable("JSON has no NaN and no infinity")
        if returns is not Any and not (returns in _PLAIN and type(value) is returns):
            self._check_faithful(value, returns, data)
        return data

    def decode(self, data: bytes, returns: Any) -> Any:
        if data.startswith(_ORIGIN):
            data = origin_of(data)[1]
        try:
            return self._decoder(returns).decode(data)
        except Exception as exc:  # validators and __post_init__ of the user's types may raise anything
            raise Unstorable("the stored value is not of the annotated type") from exc

    def prepare(self, returns: Any) -> None:
        if returns is Any or returns in self._decoders:
            return
        try:
            for custom in _custom_types(returns):
                if not _is_pydantic(custom):
                    raise ConfigError(
                        f"the return type {_name(returns)} cannot be stored: {_name(custom)} is not a dataclass, "
                        "msgspec or pydantic model, or JSON-like type; return one of those, or pass codec="
                    )
            self._decoder(returns)
        except TypeError as exc:
            raise ConfigError(
                f"the return type {_name(returns)} cannot be stored: {exc}; return another type, or pass codec="
            ) from exc

    def _check_faithful(self, value: Any, returns: Any, data: bytes) -> None:
        """A replay must give what the first call gave. Types that change when they are read (a validator that
        computes, a subclass returned as its base, a masked secret) are found here, not by the second caller.
        """
        again = self.decode(data, returns)
        if _equal(again, value):
            return
        if type(value) in _CONTAINERS and self._encode(again) == data:
            return  # a tuple where the annotation says Sequence: a list is as good
        raise Unstorable(
            f"a {type(value).__qualname__} would come back changed by its type or as another type"
        )

    def _decoder(self, returns: Any) -> msgspec.json.Decoder[Any]:
        try:
            return self._decoders[returns]
        except KeyError:
            decoder = self._decoders[returns] = msgspec.json.Decoder(returns, dec_hook=_from_builtin)
            return decoder


def with_origin(origin: str, data: bytes) -> bytes:
    """A value together with where it came from, as those who trace want to know; others read past it."""
    return b"%b%b\n%b" % (_ORIGIN, origin.encode(), data)


def origin_of(data: bytes) -> tuple[str, bytes]:
    """Where the value came from, or nothing, and the value."""
    if not data.startswith(_ORIGIN):
        return "", data
    origin, _, rest = data[1:].partition(b"\n")
    return origin.decode("ascii", "replace"), rest


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - a type that cannot be compared cannot be shown to be the same
        return False


def _is_pydantic(kind: Any) -> bool:
    return hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def _to_builtin(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return value.model_dump()  # its JSON form masks secrets and loses types
    raise TypeError(f"{type(value).__qualname__} has no JSON form")


def _from_builtin(kind: Any, data: Any) -> Any:
    if _is_pydantic(kind):
        return kind.model_validate(data)
    raise TypeError(f"{_name(kind)} cannot be read back")


def _custom_types(returns: Any) -> list[Any]:
    """Types inside the annotation that msgspec leaves to hooks."""
    found: list[Any] = []
    _walk(inspect.type_info(returns), found, set())
    return found


def _walk(info: Any, found: list[Any], visited: set[int]) -> None:
    if id(info) in visited:
        return
    visited.add(id(info))
    if isinstance(info, inspect.CustomType):
        found.append(info.cls)
    if isinstance(info, inspect.Type | inspect.Field):
        for name in info.__struct_fields__:
            for child in _as_items(getattr(info, name)):
                _walk(child, found, visited)


def _as_items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _has_nonfinite(built: Any) -> bool:
    if isinstance(built, float):
        return not math.isfinite(built)
    if isinstance(built, dict):
        return any(map(_has_nonfinite, built.values()))
    return isinstance(built, list | tuple) and any(map(_has_nonfinite, built))


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)
