"""What kind of function one was given."""

from inspect import iscoroutinefunction


def is_async(function: object) -> bool:
    """Whether calling it gives a coroutine; also of an object that can be called."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - not whether it can be called, but how
    return iscoroutinefunction(function) or iscoroutinefunction(call)
