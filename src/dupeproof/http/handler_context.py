"""What a handler may know and decide about the request it is handling."""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, Protocol
from weakref import WeakSet

from dupeproof.core.codecs import Codec
from dupeproof.core.records import Terms
from dupeproof.errors import ConfigError
from dupeproof.guards.steps import scopes
from dupeproof.http.answers import Answer
from dupeproof.http.problems import status_said_by
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

    __slots__ = (
        "_around",
        "_holds_all",
        "attempt",
        "claim",
        "done",
        "error",
        "fate",
        "knows_error",
        "reused",
        "whole",
    )

    def __init__(self, claim: Owned, attempt: int, *, holds_all: bool) -> None:
        self._around = sys.exception()
        """Is dealt with outside of the handler, and is no error of its."""
        self._holds_all = holds_all
        self.attempt = attempt
        self.fate: Fate | None = None
        """What the handler decided; None to go by the status."""
        self.error: BaseException | None = None
        """What it is held for."""
        self.knows_error = False
        """An error of the handler was seen, and it leaves no doubt."""
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
        """A framework answers for this error, and the guard meets only that answer.

        An error that says its own status, as `abort(404)` does, is an answer. Where all errors hold, a 4xx of that kind does
        not. A 5xx of that kind does not say what went wrong: the error that it was raised for does.
        """
        met: set[int] = set()
        cause: BaseException | None = error
        while self.fate is None and cause is not None and cause is not self._around and id(cause) not in met:
            met.add(id(cause))
            status = status_said_by(cause)
            refuses = status is not None and status < 500
            doubtful = (self._holds_all and isinstance(cause, Exception)) or self.claim.holds(cause)
            if doubtful and not (refuses and self._holds_all):
                self.fate, self.error = Fate.HOLD, cause
            elif status is None or refuses:
                self.knows_error = True
                return
            cause = cause.__context__ if cause.__cause__ is None else cause.__cause__

    def saw_handled(self, status: int) -> None:
        """The response begins inside of the app's `except`. With a result, the app has got over the error."""
        error = sys.exception() if status >= 300 else None
        if error is not None:
            self.saw(error)

    def child_key(self, name: str) -> str:
        return self.claim.child_key(name)

    def step(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.claim.step(name, fn, args, kwargs)


current: ContextVar[Handling | None] = ContextVar("dupeproof_handling", default=None)


def see_errors_of_frameworks() -> None:
    """Flask and Django answer for errors before these reach a middleware. They say so by a signal of the same name.

    Flask does not say it of errors that the app has a handler for.
    """
    for signals in ("flask.signals", "django.core.signals"):
        if signals in sys.modules:
            sys.modules[signals].got_request_exception.connect(_see)
    if "flask.signals" in sys.modules:
        sys.modules["flask.signals"].request_started.connect(_see_errors_of_views)


def _see(*_: object, exception: BaseException | None = None, **__: object) -> None:
    """Django does not say which one it is: it is being handled."""
    handling, error = current.get(), exception or sys.exception()
    if handling is not None and error is not None:
        handling.saw(error)


_apps_of_flask: WeakSet[Any] = WeakSet()


def _see_errors_of_views(app: Any, **_: object) -> None:
    """All errors of views come to this method of the app, which is there to be overridden. The app is known from here on."""
    if current.get() is None or app in _apps_of_flask:
        return
    _apps_of_flask.add(app)
    answer = app.handle_user_exception

    @wraps(answer)
    def seen_and_answered(error: Exception) -> Any:
        _see(exception=error)
        return answer(error)

    app.handle_user_exception = seen_and_answered


scopes.append(current.get)
