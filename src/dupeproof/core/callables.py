"""What kind of function one was given."""

from collections.abc import Iterable
from inspect import iscoroutinefunction, signature
from typing import Any


def is_async(function: object) -> bool:
    """Whether calling it gives a coroutine; also of an object that can be called."""
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def takes(function: Any, arguments: int, names: Iterable[str] = ()) -> bool:
    """Whether it can be called with so many positional arguments and these names; one without a signature is believed."""
    try:
        known = signature(function)
    except (TypeError, ValueError):
        return True
    try:
        known.bind(*range(arguments), **dict.fromkeys(names))
    except TypeError:
        return False
    return True
