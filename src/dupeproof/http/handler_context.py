"""What a handler may know and decide about the request it is handling."""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from dupeproof.core.codecs import Codec
from dupeproof.core.records import Terms
from dupeproof.errors import ConfigError
from dupeproof.guards.steps import scopes
from dupeproof.http.answers import Answer
from dupeproof.http.statuses import Fate


class Owned(Protocol):
    """The claim on the key, sync or async."""

    @property
    def token(self) -> bytes: ...

    @property
    def digest(self) -> bytes: ...

    @property
    def fingerprint(self) -> bytes: ...

    @property
    def terms(self) -> Terms: ...

    @property
    def codec(self) -> Codec: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def guarded(self) -> bool: ...

    def holds(self, error: BaseException) -> bool: ...

    def child_key(self, name: str) -> str: ...

    def step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any: ...


class Handling:
    """A request with a key, while its handler runs."""

    __slots__ = ("attempt", "claim", "done", "error", "fate", "reused", "whole")

    def __init__(self, claim: Owned, attempt: int) -> None:
        self.attempt = attempt
        self.fate: Fate | None = None
        """What the handler decided; None to go by the status."""
        self.error: BaseException | None = None
        """What it is held for."""
        self.done: Answer | None = None
        """The response of an earlier run, found in the handler's own database."""
        self.reused = False
        """That run was of another request."""
        self.claim = claim
        self.whole: Callable[[Any], Any] | None = None
        """Makes of what the handler returns the response that is stored, where the framework would do that later."""

    def decide(self, fate: Fate) -> None:
        if self.claim.guarded and not self.claim.is_open:
            raise ConfigError(
                "what becomes of this key is decided, for its response has begun; decide before, not in a background task"
            )
        self.fate = fate

    def saw(self, error: BaseException) -> None:
        """A framework answers for this error, and the guard meets only that answer."""
        if self.fate is None and self.claim.holds(error):
            self.fate, self.error = Fate.HOLD, error

    def child_key(self, name: str) -> str:
        return self.claim.child_key(name)

    def step(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.claim.step(name, fn, args, kwargs)


current: ContextVar[Handling | None] = ContextVar("dupeproof_handling", default=None)


def see_errors_of_frameworks() -> None:
    """Flask and Django answer for errors before these reach a middleware. They say so by a signal of the same name."""
    for signals in ("flask.signals", "django.core.signals"):
        if signals in sys.modules:
            sys.modules[signals].got_request_exception.connect(_see)


def _see(*_: object, exception: BaseException | None = None, **__: object) -> None:
    """Django does not say which one it is: it is being handled."""
    handling, error = current.get(), exception or sys.exception()
    if handling is not None and error is not None:
        handling.saw(error)


scopes.append(current.get)
