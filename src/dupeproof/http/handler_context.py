"""What a handler may know and decide about the request it is handling."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from dupeproof.core.codecs import Codec
from dupeproof.core.records import Terms
from dupeproof.errors import ConfigError
from dupeproof.guards.steps import scopes
from dupeproof.http.answers import Answer
from dupeproof.http.statuses import Fate
from dupeproof.keys.ids import content_id


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

    def step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any: ...


class Handling:
    """A request with a key, while its handler runs."""

    __slots__ = ("_key", "attempt", "claim", "done", "fate", "reused", "whole")

    def __init__(self, key: str, claim: Owned, attempt: int) -> None:
        self._key = key
        self.attempt = attempt
        self.fate: Fate | None = None
        """What the handler decided; None to go by the status."""
        self.done: Answer | None = None
        """The response of an earlier run, found in the handler's own database."""
        self.reused = False
        """That run was of another request."""
        self.claim = claim
        self.whole: Callable[[Any], Any] | None = None
        """Makes of what the handler returns the response that is stored, where the framework would do that later."""

    def decide(self, fate: Fate) -> None:
        if fate is Fate.HOLD and not self.claim.terms.hold:
            raise ConfigError(
                "only a guard that holds abandoned keys can hold this one; choose on_error='hold'"
            )
        if self.claim.guarded and not self.claim.is_open:
            raise ConfigError(
                "what becomes of this key is decided, for its response has begun; decide before, not in a background task"
            )
        self.fate = fate

    def child_key(self, name: str) -> str:
        return content_id(name, context=self._key)

    def step(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.claim.step(name, fn, args, kwargs)


current: ContextVar[Handling | None] = ContextVar("dupeproof_handling", default=None)
scopes.append(current.get)
