# Written by tools/twins.py from src/dupeproof/tokens/tokens_async.py; change that file instead.
"""OneTimeTokens: a token is signed when it is issued, and written down only when it is used."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from dupeproof import defaults
from dupeproof.core.clock import Clock, system_clock
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import OF_TOKENS, Event, Kind, Listener, as_listeners, count_from_zero, publish
from dupeproof.core.protocols import SeenSet, Store
from dupeproof.core.records import Mark
from dupeproof.errors import ConfigError, TokenContextMismatch, TokenExpired, TokenForged, TokenUsed
from dupeproof.guards.options import resolve_store
from dupeproof.guards.runtime import IS_ASYNC
from dupeproof.keys.names import check_namespace, key_digest
from dupeproof.stores import open_store
from dupeproof.stores.clients import StoreClient
from dupeproof.tokens.signature import Secret, Signer, Token, TokenStatus


class OneTimeTokens:
    """Tokens that are good for one thing, once, for a time.

        token = tokens.issue({"user": 1, "action": "order"}, ttl="5m")
        tokens.redeem(token, {"user": 1, "action": "order"})

    Nothing is stored until a token is used; then a mark is, in one atomic step, so of many who redeem it at once one
    succeeds. `secret` is a text of at least 16 bytes, or a dict of them by key id: the last one signs, all are accepted.
    One that was given alone has the id `default`: to change it, give `{"default": old, "k2": new}` until the old tokens'
    time is over.

    Expiry is judged by the clock of whoever redeems. A used token stays known for `leeway` beyond its time, so it cannot
    be used again while clocks are apart by less than that.
    """

    def __init__(
        self,
        store: str | StoreClient | Store,
        *,
        secret: Secret | Mapping[str, Secret],
        namespace: str = defaults.NAMESPACE,
        leeway: Duration = defaults.LEEWAY,
        events: Iterable[Listener] = (),
        clock: Clock = system_clock,
    ) -> None:
        self._namespace = check_namespace(namespace)
        self._signer = Signer(secret, self._namespace)
        # No namespace of a user's can hold a slash, so tokens and marks never meet.
        self._digest = key_digest(f"token/{self._namespace}")
        self._leeway = milliseconds(leeway, name="leeway")
        self._listeners = as_listeners(events)
        count_from_zero(self._listeners, OF_TOKENS, self._namespace)
        self._clock = clock
        self._store = resolve_store(store, open_store, is_async=IS_ASYNC)
        self._owned = isinstance(store, str)
        if not isinstance(self._store, SeenSet):
            raise ConfigError(
                f"{type(self._store).__name__} keeps no marks, so it cannot recognise used tokens"
            )
        self._used: SeenSet = self._store

    def issue(self, context: Mapping[str, Any], ttl: Duration) -> str:
        """A token for this context, good for `ttl`: about 120 characters that fit a header, a form or a URL."""
        return self._signer.issue(context, ttl, self._clock())

    def redeem(self, token: str, context: Mapping[str, Any]) -> str:
        """Use the token up; its id, fit as the key of what is done with it. Raises if it is not good for that.

        Everything is checked before anything is used up: a token shown in the wrong place is still good in the right one.
        """
        read = self._signer.read(token)
        left = read.expires_at - self._clock()
        if left <= 0:
            raise TokenExpired("this token's time is over; issue another")
        if not self._signer.is_bound_to(read, context):
            self._emit(Kind.MISMATCH, read)
            raise TokenContextMismatch("this token was issued for something else; it is not used up")
        [first] = self._used.mark([Mark(self._key(read), left + self._leeway)])
        self._emit(Kind.FRESH if first else Kind.SEEN, read)
        if not first:
            raise TokenUsed("this token has been used before", token_id=read.id.hex())
        return read.id.hex()

    def status(self, token: str) -> TokenStatus:
        """Whether it could be used now; uses nothing up."""
        try:
            read = self._signer.read(token)
        except TokenForged:
            return TokenStatus.FORGED
        [mark] = self._used.marks([self._key(read)])
        if mark is not None:
            return TokenStatus.USED
        return TokenStatus.UNUSED if read.expires_at > self._clock() else TokenStatus.EXPIRED

    def _key(self, token: Token) -> bytes:
        return self._digest(token.id.hex())

    def _emit(self, kind: Kind, token: Token) -> None:
        if self._listeners:
            shown = self._key(token).hex()[:12]
            publish(self._listeners, Event(kind=kind, namespace=self._namespace, key=shown))

    def close(self) -> None:
        if self._owned:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
