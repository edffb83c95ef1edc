# Written by tools/twins.py from src/dupeproof/guards/runner_async.py; change that file instead.
"""Runs functions under claims: what `run`, `attempt` and decorated functions have in common."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dupeproof.core.codecs import Codec
from dupeproof.core.events import Emitters
from dupeproof.core.policy import Policy
from dupeproof.guards.claims import Claim
from dupeproof.guards.engine import Engine
from dupeproof.guards.many import Batch, failure
from dupeproof.guards.results import Result
from dupeproof.guards.runtime import awaited

R = TypeVar("R")
T = TypeVar("T")


class Runner:
    """For the calls of one function, or of one guard. `name` is that of the function, as listeners are told it."""

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        digest: Callable[[str], bytes],
        codec: Codec,
        name: str = "",
    ) -> None:
        self._engine = engine
        self.policy = policy
        self._digest = digest
        self._codec = codec
        self._emitters = Emitters(engine.listeners, policy.terms.namespace, name)

    def claim(self, key: str, returns: Any, fingerprint: bytes) -> Claim:
        return Claim(
            self._engine,
            self.policy,
            self._emitters,
            self._codec,
            returns,
            key,
            self._digest(key),
            fingerprint,
        )

    def attempt(
        self,
        key: str,
        returns: Any,
        fingerprint: bytes,
        fn: Callable[..., R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Result[R]:
        claim = self.claim(key, returns, fingerprint)
        value = _perform(claim, fn, args, kwargs)
        return Result(value, replayed=claim.done, attempt=claim.attempt)

    def attempt_many(
        self,
        keys: Sequence[str],
        returns: Any,
        fingerprints: Sequence[bytes],
        fn: Callable[[T], R],
        items: Sequence[T],
    ) -> list[Result[R]]:
        claims = [
            self.claim(key, returns, compared) for key, compared in zip(keys, fingerprints, strict=True)
        ]
        batch = Batch(self._engine, self.policy, claims)
        batch.run(fn, items)
        for place in batch.again:
            try:
                batch.results[place] = self.attempt(
                    keys[place], returns, fingerprints[place], fn, (items[place],), {}
                )
            except Exception as exc:  # noqa: BLE001 - it belongs to this item; the others go on
                batch.results[place] = failure(exc, 0)
        return [batch.results[place] for place in range(len(items))]

    def run(
        self,
        key: str,
        returns: Any,
        fingerprint: bytes,
        fn: Callable[..., R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> R:
        return _perform(self.claim(key, returns, fingerprint), fn, args, kwargs)


def _perform(claim: Claim, fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    """The value: of the work if the claim is won, of the one who did it before if not."""
    claim.acquire()
    if not claim.won:
        replayed: R = claim.result
        return replayed
    try:
        value: R = awaited(fn(*args, **kwargs))
    except BaseException as exc:
        if claim.is_open:
            claim.leave(exc)
        raise
    claim.finish(value)
    return value
