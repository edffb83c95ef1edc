"""Bind a call's arguments to parameter names, as the function itself would, without paying for it on every call."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from dupeproof.errors import ConfigError

Bind = Callable[[tuple[Any, ...], Mapping[str, Any]], dict[str, Any]]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def signature_of(fn: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        raise ConfigError(
            f"the parameters of {name_of(fn)} cannot be read; wrap it in a function of your own"
        ) from None


def name_of(fn: Callable[..., object]) -> str:
    return getattr(fn, "__qualname__", type(fn).__qualname__)


def bound_arguments(fn: Callable[..., object]) -> Bind:
    """A function from (args, kwargs) to all arguments by name, with defaults, less a leading `self` or `cls`.

    `*args` comes back as a tuple and `**kwargs` as a dict under their own names. A call that the function would refuse
    raises the TypeError that the function would raise.
    """
    bind = binder(signature_of(fn))
    first = next(iter(signature_of(fn).parameters), None)
    if first not in ("self", "cls"):
        return bind

    def bind_method(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = bind(args, kwargs)
        del bound[first]
        return bound

    return bind_method


def binder(signature: inspect.Signature) -> Bind:
    """As `Signature.bind` with defaults applied, which takes microseconds; here only for what is out of the ordinary."""
    parameters = signature.parameters.values()

    def bind_slowly(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    if any(parameter.kind in _VARIABLE for parameter in parameters):
        return bind_slowly
    names = tuple(parameter.name for parameter in parameters if parameter.kind in _POSITIONAL)
    by_keyword = frozenset(parameter.name for parameter in parameters if parameter.kind in _BY_KEYWORD)
    defaults = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }
    most, total = len(names), len(signature.parameters)

    def bind(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        given = len(args)
        if given > most:
            return bind_slowly(args, kwargs)  # raises
        bound = dict(zip(names, args, strict=False))
        if kwargs:
            bound.update(kwargs)
            # A name given twice, or one that is not a keyword: let Signature.bind say so.
            if len(bound) != given + len(kwargs) or not by_keyword.issuperset(kwargs):
                return bind_slowly(args, kwargs)
        if len(bound) != total:
            bound = defaults | bound
            if len(bound) != total:
                return bind_slowly(args, kwargs)  # raises
        return bound

    return bind


def plain_names(fn: Callable[..., object]) -> tuple[str, ...] | None:
    """The parameters of a function that takes each by position or name, and is no method; None for any other."""
    parameters = signature_of(fn).parameters
    plain = all(
        parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for parameter in parameters.values()
    )
    names = tuple(parameters)
    return names if plain and names and names[0] not in ("self", "cls") and "".join(names).isascii() else None


def picker(signature: inspect.Signature, name: str) -> Callable[[tuple[Any, ...], Mapping[str, Any]], Any]:
    """A function from (args, kwargs) to one argument.

    As strict as `binder`, but of a purely positional call it only needs the number of arguments.
    """
    bind = binder(signature)

    def pick_slowly(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return bind(args, kwargs)[name]

    parameters = list(signature.parameters.values())
    if any(parameter.kind not in _POSITIONAL for parameter in parameters):
        return pick_slowly
    index = list(signature.parameters).index(name)
    default = signature.parameters[name].default
    least = sum(parameter.default is inspect.Parameter.empty for parameter in parameters)
    most = len(parameters)

    def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        given = len(args)
        if kwargs or given < least or given > most:
            return bind(args, kwargs)[name]
        return args[index] if index < given else default

    return pick
