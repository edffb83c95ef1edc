"""The fields of an object: dataclass, attrs, msgspec and pydantic, recognised without importing any but msgspec."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

Fields = Callable[[Any], Mapping[str, object]]


class Partial:
    """An object with some of its fields left out, as `fingerprint` sees it."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: Mapping[str, object]) -> None:
        self.name = name
        self.fields = fields


def class_name(value: object) -> str:
    """What an object is called in canonical form. Not its module: moving a class must not change its ids."""
    return value.name if type(value) is Partial else type(value).__qualname__


@lru_cache(maxsize=1024)
def fields_reader(kind: Any) -> Fields | None:
    """A function from an instance of the class to its fields by name; None for a class without declared fields."""
    if kind is Partial:
        return lambda value: value.fields
    if issubclass(kind, msgspec.Struct):
        return _from_attributes(kind.__struct_fields__)
    if dataclasses.is_dataclass(kind):
        return _from_attributes(tuple(field.name for field in dataclasses.fields(kind)))
    if hasattr(kind, "__attrs_attrs__"):
        return _from_attributes(tuple(attribute.name for attribute in kind.__attrs_attrs__))
    if hasattr(kind, "model_fields") and hasattr(kind, "model_dump"):
        return _from_pydantic(tuple(kind.model_fields))
    if hasattr(kind, "__fields__") and hasattr(kind, "__fields_set__"):  # pydantic 1
        return _from_pydantic(tuple(kind.__fields__))
    return None


def _from_attributes(names: tuple[str, ...]) -> Fields:
    def read(value: object) -> Mapping[str, object]:
        # A field never set (init=False) or UNSET is absent, as it is when the object is encoded.
        found = {name: getattr(value, name, msgspec.UNSET) for name in names}
        return {name: item for name, item in found.items() if item is not msgspec.UNSET}

    return read


def _from_pydantic(names: tuple[str, ...]) -> Fields:
    def read(value: Any) -> Mapping[str, object]:
        # From the instance's own dict: getattr would warn about deprecated fields. Cached properties live there too,
        # so only declared names are taken; extra fields, where the model allows them, are part of the content.
        own = vars(value)
        extra = getattr(value, "__pydantic_extra__", None)
        return {name: own[name] for name in names if name in own} | ({} if extra is None else extra)

    return read
