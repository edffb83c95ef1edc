"""What a lookup says of work that may have happened, and whether a function can be a lookup."""

import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dupeproof.core import callables
from dupeproof.core.policy import Lookup
from dupeproof.errors import ConfigError


class Done(Struct, frozen=True):
    """It has happened, with this value: callers get it, and nothing runs.

    With `step`, that step of the call has happened, with this value. The call runs again, and the step does not.
    """

    value: Any = None
    step: str | None = None


class NotDone(Struct, frozen=True):
    """It has not happened, and never will by itself: the call may run."""


class Unknown(Struct, frozen=True):
    """The other side does not know. The key stays held."""


Settlement = Done | NotDone | Unknown


class Settled(Struct, frozen=True, kw_only=True):
    """What became of the held keys that a lookup was asked about."""

    done: int = 0
    not_done: int = 0
    """These may run again."""
    unknown: int = 0
    failed: int = 0
    """The lookup raised an error, or gave something that is none of the three. The log says what. They stay held."""


def check_lookup(lookup: Lookup | None, *, is_async: bool, fn: Callable[..., object] | None = None) -> None:
    """Refuse what could not be asked, before anything depends on it."""
    if lookup is None:
        return
    name = getattr(lookup, "__qualname__", type(lookup).__name__)
    if not callable(lookup):
        raise ConfigError(f"settle= takes a function that is called with an Entry; got {name}")
    if not is_async and callables.is_async(lookup):
        raise ConfigError(f"the lookup {name} is async; use AsyncOnce, or a plain function")
    if fn is not None and not _takes_call(lookup, fn):
        raise ConfigError(
            f"the lookup {name} must take the entry, then the arguments of {getattr(fn, '__qualname__', fn)}: "
            "def lookup(entry, *args, **kwargs)"
        )
    if fn is None and not _takes_entry(lookup):
        raise ConfigError(f"the lookup {name} must take the entry first: def lookup(entry, *args, **kwargs)")


def check_settlement(answer: object, lookup: Lookup) -> Settlement:
    if isinstance(answer, Done | NotDone | Unknown):
        return answer
    name = getattr(lookup, "__qualname__", type(lookup).__name__)
    raise ConfigError(
        f"the lookup {name} gave a {type(answer).__name__}; it must give Done(value), NotDone() or Unknown()"
    )


def _takes_entry(lookup: Lookup) -> bool:
    """What comes after the entry depends on the call, so it is not looked at here."""
    try:
        parameters = [*inspect.signature(lookup).parameters.values()]
    except (TypeError, ValueError):
        return True
    first = parameters[0] if parameters else None
    return first is not None and first.kind in (
        first.POSITIONAL_ONLY,
        first.POSITIONAL_OR_KEYWORD,
        first.VAR_POSITIONAL,
    )


def _takes_call(lookup: Lookup, fn: Callable[..., object]) -> bool:
    try:
        wanted = [*inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        return True
    positional = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in wanted)
    names = [each.name for each in wanted if each.kind is each.KEYWORD_ONLY]
    return callables.takes(lookup, 1 + positional, names)
