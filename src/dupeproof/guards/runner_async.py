"""Runs functions under claims: what `run`, `attempt` and decorated functions have in common."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from dupeproof.core.codecs import Codec
from dupeproof.core.events import Emitters
from dupeproof.core.policy import Policy
from dupeproof.guards.claims_async import AsyncClaim
from dupeproof.guards.engine_async import AsyncEngine
from dupeproof.guards.many_async import AsyncBatch, failure
from dupeproof.guards.results import Result
from dupeproof.guards.runtime_async import awaited

R = TypeVar("R")
T = TypeVar("T")


class AsyncRunner:
    """For the calls of one function, or of one guard. `name` is that of the function, as listeners are told it."""

    def __init__(
        self,
        engine: AsyncEngine,
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

    def claim(self, key: str, returns: Any, fingerprint: bytes) -> AsyncClaim:
        return AsyncClaim(
            self._engine,
            self.policy,
            self._emitters,
            self._codec,
            returns,
            key,
            self._digest(key),
            fingerprint,
        )

    async def attempt(
        self,
        key: str,
        returns: Any,
        fingerprint: bytes,
        fn: Callable[..., Awaitable[R]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Result[R]:
        claim = self.claim(key, returns, fingerprint)
        value = await _perform(claim, fn, args, kwargs)
        return Result(value, replayed=claim.done, attempt=claim.attempt)

    async def attempt_many(
        self,
        keys: Sequence[str],
        returns: Any,
        fingerprints: Sequence[bytes],
        fn: Callable[[T], Awaitable[R]],
        items: Sequence[T],
    ) -> list[Result[R]]:
        claims = [
            self.claim(key, returns, compared) for key, compared in zip(keys, fingerprints, strict=True)
        ]
        batch = AsyncBatch(self._engine, self.policy, claims)
        await batch.run(fn, items)
        for place in batch.again:
            try:
                batch.results[place] = await self.attempt(
                    keys[place], returns, fingerprints[place], fn, (items[place],), {}
                )
            except Exception as exc:  # noqa: BLE001 - it belongs to this item; the others go on
                batch.results[place] = failure(exc, 0)
        return [batch.results[place] for place in range(len(items))]

    async def run(
        self,
        key: str,
        returns: Any,
        fingerprint: bytes,
        fn: Callable[..., Awaitable[R]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> R:
        return await _perform(self.claim(key, returns, fingerprint), fn, args, kwargs)


async def _perform(
    claim: AsyncClaim, fn: Callable[..., Awaitable[R]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> R:
    """The value: of the work if the claim is won, of the one who did it before if not."""
    await claim.acquire()
    if not claim.won:
        replayed: R = claim.result
        return replayed
    try:
        value: R = await awaited(fn(*args, **kwargs))
    except BaseException as exc:
        if claim.is_open:
            await claim.leave(exc)
        raise
    await claim.finish(value)
    return value
