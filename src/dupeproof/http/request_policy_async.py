"""Where requests are received: is there a key, whose is it, and is it the same request as before?"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

from msgspec.structs import replace

from dupeproof.core.events import logger
from dupeproof.core.protocols import AsyncStore
from dupeproof.errors import ConfigError, KeyInvalid
from dupeproof.guards import AsyncOnce
from dupeproof.guards.claims_async import AsyncClaim
from dupeproof.guards.runtime_async import IS_ASYNC, awaited
from dupeproof.http.answers import Answer, AnswerCodec
from dupeproof.http.exchange_async import AsyncExchange
from dupeproof.http.fingerprints import (
    Head,
    chosen_digest,
    header_digest,
    is_json,
    json_digest,
    request_digest,
)
from dupeproof.http.handler_context import current, see_errors_of_frameworks
from dupeproof.http.keys import check_found, key_for, parse_key
from dupeproof.http.problems import Code, Refused, problem
from dupeproof.http.rules import GuardOptions, Options, Scope, make_rules, split_options
from dupeproof.http.statuses import Fate
from dupeproof.stores.clients import StoreClient


class AsyncRequestPolicy:
    def __init__(
        self, store: str | StoreClient | AsyncStore | AsyncOnce, scope: Scope, options: Options
    ) -> None:
        of_requests, of_guard = split_options(options)
        self.rules = make_rules(scope, of_requests, is_async=IS_ASYNC)
        self._once = _guard(store, of_guard, hold=self.rules.of_error is Fate.HOLD)
        codec = AnswerCodec(self._once.codec)
        codec.prepare(Answer)
        self._claims = self._once.claims(name="http", codec=codec)
        self._owned = not isinstance(store, AsyncOnce)
        self._warned = False
        self._mark = f"dupeproof.http/{self._claims.policy.terms.namespace}"
        hold_on = self._claims.policy.hold_on
        if "on_error" not in of_requests and BaseException in hold_on:
            self.rules = replace(self.rules, of_error=Fate.HOLD, of_unseen_error=Fate.HOLD)
        holds_all = self.rules.of_error is Fate.HOLD or self._claims.policy.holds(Exception())
        self.rules = replace(self.rules, holds_all=holds_all)
        if hold_on or holds_all:
            see_errors_of_frameworks()
        if hold_on and BaseException not in hold_on and self.rules.of_error is Fate.FAIL:
            self.rules = replace(self.rules, of_unseen_error=Fate.HOLD)

    def wants(self, method: str, request: Any) -> bool:
        """Whether requests like this are to be guarded."""
        return method in self.rules.methods and (self.rules.when is None or self.rules.when(request))

    def find_key(self, values: Sequence[str], request: Any) -> str | None:
        """The key; None if there is none and none is needed. Raises `Refused`."""
        rules = self.rules
        if rules.find_key is None:
            key = parse_key(values)
        else:
            found = rules.find_key(request)
            key = None if found is None else check_found(found)
        if key is None:
            if rules.required:
                raise Refused(Code.KEY_MISSING)
            return None
        if rules.validate is not None and not rules.validate(key):
            raise Refused(Code.KEY_MALFORMED)
        return key

    async def whose(self, key: str, request: Any) -> str | None:
        """The whole key, with the scope it belongs to; None if the scope knows no owner. Raises `Refused`."""
        return self.whole_key(await awaited(self.owner(request)), key)

    def owner(self, request: Any) -> object:
        """What the scope says; of an async one, to be awaited."""
        scope = self.rules.scope
        return scope(request) if callable(scope) else scope

    def whole_key(self, owner: object, key: str) -> str | None:
        """None if nobody is known to be the owner, so that the app is to answer, as it does whom it does not know."""
        if owner is None:
            return None
        try:
            return key_for(owner, key)
        except KeyInvalid as exc:
            logger.exception("A request with a key was refused")
            raise Refused(Code.SCOPE_MISSING) from exc

    def unguarded(self, status: int) -> None:
        """A request with a key was handled without a guard, because it has no owner, and answered so."""
        if status < 300 and not self._warned:
            self._warned = True
            logger.warning(
                "A request with an idempotency key was handled without a guard, and answered with %s: scope= gave None, "
                "which leaves it to the app to turn strangers away. If callers are only known further inside, as under "
                "Django REST framework or FastAPI's Depends, take the guard that stands there: dupeproof.http.drf, "
                "dupeproof.http.ninja, dupeproof.http.fastapi.idempotent",
                status,
            )

    def is_inner(self, of_request: MutableMapping[str, Any], key: str) -> bool:
        """Whether a guard like this one is around us, which has the key already; if not, inner guards are informed.

        `of_request` travels with the request: an ASGI scope, an environ. The context variable alone does not distinguish it from a
        request that its handler makes in this process, nor would the mark from one of before, whose scope is used again.
        """
        if current.get() is not None and of_request.get(self._mark) == key:
            return True
        of_request[self._mark] = key
        return False

    def compared(
        self, request: Any, head: Head, values_of: Callable[[str], Sequence[str]], body: Iterable[bytes]
    ) -> bytes:
        """What must be equal in a retry, as a digest. `values_of` gives the values of a header."""
        if self.rules.headers:
            head = head._replace(chosen=header_digest(self.rules.headers, values_of))
        chosen = self.rules.fingerprint
        if chosen is None:
            return request_digest(head, body)
        if chosen == "json":
            return json_digest(head, body) if is_json(head.content_type) else request_digest(head, body)
        whole = b"".join(body)
        try:
            return chosen_digest(head, chosen(request, whole))
        except Exception as exc:  # noqa: BLE001 - whatever a body that makes no sense does to it
            # The handler will say what is wrong with it. Only the error's type is logged: its text may quote the body.
            logger.warning("fingerprint= failed with %s, so all of a request counts", type(exc).__name__)
            return request_digest(head, (whole,))

    def exchange(self, key: str, compared: bytes) -> AsyncExchange:
        return AsyncExchange(self.rules, AsyncClaim(self._claims, key, Answer, compared))

    async def authorized(self, request: Any, answer: Answer) -> Answer:
        """An answer that comes from us and not from the app: as it is, or a refusal where the caller may not see it."""
        if self.rules.authorize is None or await awaited(self.rules.authorize(request)):
            return answer
        return problem(Code.NOT_AUTHORIZED)

    async def close(self) -> None:
        if self._owned:
            await self._once.close()


def _guard(
    store: str | StoreClient | AsyncStore | AsyncOnce, options: GuardOptions, *, hold: bool
) -> AsyncOnce:
    if isinstance(store, AsyncOnce):
        if options:
            raise ConfigError(
                f"{', '.join(options)}: your {type(store).__name__} has its own; set it there, or pass a URL as store="
            )
        return store
    others: dict[str, Any] = {"namespace": "http", **options}
    if "wait" in options:
        others["on_busy"] = "wait"
    if hold:
        others["on_abandoned"] = "hold"
    return AsyncOnce(store, **others)
