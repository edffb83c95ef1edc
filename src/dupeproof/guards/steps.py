"""Steps of a guarded call: each runs once over all attempts. And a stable key for each call to somebody else.

The journal of steps is kept with the record of the call, under its token, for as long as the call is not done. Before a step
it is written there that the step has begun, after it what the step gave. An attempt after a crash gets the results of the
steps that were finished. One that was begun and not finished runs again if the call may run again: `on_abandoned`, `hold_on`
and `settle` decide that for the call as a whole.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec import Struct

from dupeproof.core.records import Record
from dupeproof.errors import ConfigError
from dupeproof.keys.ids import content_id

P = ParamSpec("P")
R = TypeVar("R")
_LONGEST_NAME = 100
_BETWEEN = "/"


class Step(Struct, frozen=True, omit_defaults=True):
    """What is known of one step: begun, or done with a result."""

    done: bool = False
    result: bytes = b""
    codec: str = ""


Journal = dict[str, Step]


class Scope(Protocol):
    """What is guarded here: a call, a message, a request."""

    def step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any: ...

    def child_key(self, name: str) -> str: ...


current: ContextVar[Scope | None] = ContextVar("dupeproof_scope", default=None)


scopes: list[Callable[[], Scope | None]] = []
"""What else may be guarded here, where no call is: layers above say how to find it."""


def step(name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `fn` once for the guarded call around it, over all its attempts; later attempts get its result.

    Under `AsyncOnce` it is to be awaited. Names are those of one call; two steps of a call have two names.
    """
    found: R = _scope("step").step(name, fn, args, kwargs)
    return found


def child_key(name: str) -> str:
    """A key for a call to somebody else, the same in every attempt of the guarded call, message or request around it."""
    return _scope("child_key").child_key(name)


def _scope(wanted: str) -> Scope:
    found = current.get()
    for look in scopes if found is None else ():
        found = found or look()
    if found is None:
        raise ConfigError(
            f"{wanted}() is for the inside of a guarded call, of a consumer's handler, or of a request with a key; a thread "
            "of your own starts without, so run it with contextvars.copy_context().run"
        )
    return found


class Keys:
    """Where there is a stable id and no record of steps, as for a message whose effect is in a transaction."""

    def __init__(self, *context: str) -> None:
        self._context = list(context)

    def step(self, name: str, *_: Any) -> Any:
        raise ConfigError(
            f"the step {name!r} needs a record: consume with once=…, or guard the call inside with Once"
        )

    def child_key(self, name: str) -> str:
        return content_id(check_name(name), context=self._context)


class Inner:
    """Inside a step: the steps in it have names of their own."""

    def __init__(self, claim: Any, within: str) -> None:
        self._claim = claim
        self._within = within

    def step(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._claim.step(self._within + _BETWEEN + check_name(name), fn, args, kwargs, is_path=True)

    def child_key(self, name: str) -> str:
        return str(self._claim.child_key(self._within + _BETWEEN + check_name(name), is_path=True))


def check_name(name: object) -> str:
    if (
        isinstance(name, str)
        and name.isprintable()
        and 0 < len(name) <= _LONGEST_NAME
        and _BETWEEN not in name
    ):
        return name
    raise ConfigError(
        f"the name of a step is a printable text of at most {_LONGEST_NAME} characters without a slash; got {name!r}"
    )


def same_name(path: str) -> ConfigError:
    return ConfigError(
        f"the step {path!r} was there before in this call; give each its own name, as step(f'mail {{n}}', …)"
    )


def read_journal(record: Record | None) -> Journal:
    """The steps of work that is not done."""
    if record is None or record.is_finished or not record.result:
        return {}
    return msgspec.json.decode(record.result, type=Journal)


write_journal = msgspec.json.encode
