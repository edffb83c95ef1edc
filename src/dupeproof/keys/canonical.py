"""The one canonical form of a value: RFC 8785 bytes for JSON types, tagged forms outside JSON's grammar for others.

Equal bytes mean "the same content", in every process and Python version. JSON values come out exactly as RFC 8785
says. Everything else starts with `@`, which no JSON value does, so it can never meet one:

    int beyond 2**53   @int"20000000000001"              (hexadecimal; JSON numbers are doubles)
    Decimal            @decimal"15e-1"                   1.5 and 1.50 are equal; 1.5 as a float is not
    datetime           @datetime"2024-05-01T10:00:00.000000Z"     without the Z if it has no time zone
    date, time         @date"2024-05-01"  @time"10:00:00.000000"
    timedelta          @timedelta"1500000us"
    UUID, bytes        @uuid"…"  @bytes"…"               (hexadecimal)
    Enum               @enum["Color","red"]              class and value
    objects            @object["Order",{"id":"o-1"}]     dataclass, attrs, msgspec, pydantic: class and fields
    set, frozenset     @set[1,2]                         sorted
    dict, other keys   @map[[1,"a"],[2,"b"]]             sorted by key; a dict with str keys is plain JSON

A tuple is an array, as for JSON. 1 and 1.0 are the same number, as for RFC 8785.
"""

import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any

from dupeproof.errors import KeyInvalid
from dupeproof.keys.models import Partial, class_name, fields_reader
from dupeproof.keys.scalars import EXACT, SCALARS, RefusedError, is_uuid_class, quote, write_str, write_uuid

MAX_DEPTH = 100

_Writer = Callable[[Any, int], str]
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def canonical(value: object, *, name: str = "payload") -> bytes:
    """The canonical form of the value, as UTF-8. `name` is what an error calls the value: `payload.items[2].price`."""
    try:
        return _WRITERS[type(value)](value, 0).encode()
    except RefusedError as refused:
        raise KeyInvalid(f"{_path_text(name, refused.path)} {refused.why}") from None


def _write(value: object, depth: int) -> str:
    return _WRITERS[type(value)](value, depth)


def _write_array(value: list[Any] | tuple[Any, ...], depth: int) -> str:
    if depth > MAX_DEPTH:
        raise _too_deep()
    parts: list[str] = []
    try:
        for item in value:
            kind = type(item)
            # The two commonest kinds are written here: a call costs as much as the work itself.
            if kind is str and item.isascii():
                parts.append(quote(item))
            elif kind is int and -EXACT <= item <= EXACT:
                parts.append(repr(item))
            else:
                parts.append(_WRITERS[kind](item, depth + 1))
    except RefusedError as refused:
        refused.path.append(len(parts))
        raise
    return f"[{','.join(parts)}]"


def _write_dict(value: dict[Any, Any], depth: int) -> str:
    if not value:
        return "{}"
    if depth > MAX_DEPTH:
        raise _too_deep()
    try:
        keys = sorted(value) if len(value) > 1 else value
    except TypeError:  # keys of several types
        return _write_odd_dict(value, depth)
    parts: list[str] = []
    key = None
    try:
        for key in keys:
            if type(key) is not str or not key.isascii():
                break
            item = value[key]
            kind = type(item)
            if kind is str and item.isascii():
                parts.append(f"{quote(key)}:{quote(item)}")
            elif kind is int and -EXACT <= item <= EXACT:
                parts.append(f"{quote(key)}:{item!r}")
            else:
                parts.append(f"{quote(key)}:{_WRITERS[kind](item, depth + 1)}")
        else:
            return f"{{{','.join(parts)}}}"
    except RefusedError as refused:
        refused.path.append(key)
        raise
    return _write_odd_dict(value, depth)


def _write_odd_dict(value: dict[Any, Any], depth: int) -> str:
    """Keys that are not ASCII sort by UTF-16 code units, which is not Python's order; keys that are not text: a map."""
    textual = all(isinstance(key, str) and not isinstance(key, Enum) for key in value)
    pairs: list[tuple[str, str]] = []
    for key, item in sorted(value.items(), key=_utf16) if textual else value.items():
        try:
            pairs.append((_write(key, depth + 1), _write(item, depth + 1)))
        except RefusedError as refused:
            refused.path.append(key if isinstance(key, str) else None)
            raise
    if textual:
        return f"{{{','.join(f'{key}:{item}' for key, item in pairs)}}}"
    return f"@map[{','.join(f'[{key},{item}]' for key, item in sorted(pairs))}]"


def _utf16(pair: tuple[str, object]) -> bytes:
    # Lone surrogates pass here; writing the key refuses them, with a path.
    return pair[0].encode("utf-16-be", "surrogatepass")


def _write_set(value: set[Any] | frozenset[Any], depth: int) -> str:
    if depth > MAX_DEPTH:
        raise _too_deep()
    try:
        return f"@set[{','.join(sorted([_write(item, depth + 1) for item in value]))}]"
    except RefusedError as refused:
        refused.path.append(None)
        raise


def _write_enum(value: Enum, depth: int) -> str:
    return f"@enum[{write_str(type(value).__qualname__)},{_write(value.value, depth + 1)}]"


def _write_object(value: Any, depth: int) -> str:
    kind: Any = type(value)
    reader = fields_reader(kind)
    assert reader is not None
    return f"@object[{write_str(class_name(value))},{_write_dict(dict(reader(value)), depth + 1)}]"


@lru_cache(maxsize=1024)
def _writer_for(kind: Any) -> _Writer:
    """The writer for a class that has none of its own. Enum first: a StrEnum is a str, an IntEnum an int."""
    if issubclass(kind, Enum):
        return _write_enum
    if fields_reader(kind) is not None:
        return _write_object
    if is_uuid_class(kind):
        return write_uuid
    for base in kind.__mro__:
        if base in _WRITERS:
            return _as_base(base, _WRITERS[base])
    return _refuse


def _as_base(base: type, writer: _Writer) -> _Writer:
    # Through the base's own conversion: a subclass may print or compare itself in another way.
    if base is str:
        return lambda value, depth: writer(str.__str__(value), depth)
    if base is int:
        return lambda value, depth: writer(int.__int__(value), depth)
    if base is float:
        return lambda value, depth: writer(float.__float__(value), depth)
    return writer


def _refuse(value: object, _depth: int) -> str:
    raise RefusedError(
        f"is of type {type(value).__module__}.{type(value).__qualname__}, which has no canonical form; pass plain data "
        "(str, int, dict, list, …), a dataclass or a model, or convert it first"
    )


def _too_deep() -> RefusedError:
    return RefusedError(f"is nested deeper than {MAX_DEPTH} levels, or contains itself; pass a flatter value")


def _path_text(name: str, path: list[str | int | None]) -> str:
    """`payload.items[2].price`. Keys that do not look like names may be data, so they are not shown."""
    text = name
    for step in reversed(path[-8:]):
        if isinstance(step, int):
            text += f"[{step}]"
        elif step is not None and _PLAIN_NAME.fullmatch(step):
            text += f".{step}"
        else:
            text += "[…]"
    return text if len(path) <= 8 else f"{text}…"


class _Writers(dict[type, _Writer]):
    """Writers by exact class; any other class is looked up by what it derives from.

    That class is not kept here: one made at run time would stay alive for ever.
    """

    def __missing__(self, kind: Any) -> _Writer:
        return _writer_for(kind)


_WRITERS = _Writers(
    {
        **SCALARS,
        list: _write_array,
        tuple: _write_array,
        dict: _write_dict,
        set: _write_set,
        frozenset: _write_set,
        Partial: _write_object,
    }
)
