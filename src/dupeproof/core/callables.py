"""What kind of function one was given."""

from inspect import iscoroutinefunction, signature
from typing import Any


def is_async(function: object) -> bool:
    """Whether calling it gives a coroutine; also of an object that can be called."""
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def takes(function: Any, arguments: int) -> bool:
    """Whether it can be called with so many positional arguments; one that does not tell is believed."""
    try:
        known = signature(function)
    except (TypeError, ValueError):
        return True
    try:
        known.bind(*range(arguments))
    except TypeError:
        return False
    return True
