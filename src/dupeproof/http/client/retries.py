"""When a request is tried again, and after how long. Pure but for the dice."""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
import msgspec

from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError
from dupeproof.http.client.redirects import Trail
from dupeproof.keys.ids import new_id

SAFE_ALREADY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Idempotent by what HTTP says of them (RFC 9110, 9.2.2): they need no key to be sent again."""
PASSING = frozenset({425, 429, 502, 503, 504})
IN_PROGRESS = frozenset({"in-progress", "idempotency_key_in_use"})
"""What ours and Stripe's 409 say when the first try is still at work. Any other without Retry-After is an answer."""
UNANSWERED = (
    httpx.ConnectError,
    httpx.ReadError,
    httpx.WriteError,
    httpx.CloseError,
    httpx.TimeoutException,
    httpx.RemoteProtocolError,
    httpx.ProxyError,
)
"""Errors after which nobody knows whether the request was carried out."""
_NUMBER_OF_DOUBLINGS = 30
_LARGEST_KEPT = 1_048_576


class _Error(msgspec.Struct):
    code: str = ""


class _Problem(_Error):
    """Ours, or one in which Stripe's is."""

    error: _Error | None = None


class Retrying:
    """The rules for all requests of a transport."""

    def __init__(
        self,
        *,
        header: str,
        methods: Iterable[str],
        tries: object,
        deadline: Duration,
        backoff: Duration,
        longest_backoff: Duration,
        make_key: Callable[[], str],
    ) -> None:
        if isinstance(methods, str):
            raise ConfigError(f"methods= takes several, such as ('POST', 'PATCH'); got the text {methods!r}")
        if not isinstance(tries, int) or isinstance(tries, bool) or tries < 1:
            raise ConfigError(f"tries must be a number, at least 1; got {tries!r}")
        self.header = header
        self._trail = f"dupeproof.{header.lower()}"
        """The extension of a request that says where its key comes from."""
        self.keyed = frozenset(method.upper() for method in methods)
        self.tries = tries
        self.deadline = milliseconds(deadline, name="deadline") / 1_000
        self.backoff = milliseconds(backoff, name="backoff") / 1_000
        self._longest = milliseconds(longest_backoff, name="longest_backoff") / 1_000
        self._make_key = make_key

    def prepared(self, request: httpx.Request) -> bool:
        """Whether it may be sent more than once; with a key of its own if it needs one and the caller gave none."""
        found = request.headers.get(self.header)
        key = self._key(request, found)
        if key is None:
            request.headers.pop(self.header, None)
        elif key != found:
            request.headers[self.header] = key
        return key is not None or request.method in SAFE_ALREADY

    def _key(self, request: httpx.Request, found: str | None) -> str | None:
        trail = request.extensions.get(self._trail)
        if trail is not None and trail.goes_on_with(request, found):
            trail = trail.followed_by(request)
        else:
            key = self._make_key() if found is None and request.method in self.keyed else found
            trail = None if key is None else Trail.of(request, key)
        if trail is None:
            return None
        # A new dict: the one that is there may be the caller's, who gives it to all requests.
        request.extensions = {**request.extensions, self._trail: trail}
        return trail.sent

    def course(self, request: httpx.Request) -> "Course":
        return Course(self, request)

    def pause(self, failures: int) -> float:
        """Twice as long each time, and never the same for two clients."""
        longest = min(self._longest, self.backoff * 2.0 ** min(failures - 1, _NUMBER_OF_DOUBLINGS))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class Course:
    """The tries of one request."""

    def __init__(self, rules: Retrying, request: httpx.Request) -> None:
        self._rules = rules
        self._request = request
        self._given: Mapping[str, float | None] = request.extensions.get("timeout", {})
        self._ends = time.monotonic() + rules.deadline
        self._pauses = 0
        self._failures = 0

    def bound(self) -> None:
        """No single wait of this try may outlast the time that is left for all of them."""
        left = max(0.001, self._ends - time.monotonic())
        waits = {"connect", "read", "write", "pool"} | set(self._given)
        self._set({name: _shorter(left, self._given.get(name)) for name in waits})

    def unbound(self) -> None:
        """A request that follows a redirect has a course of its own."""
        self._set(self._given)

    def _set(self, timeouts: Mapping[str, float | None]) -> None:
        # A new dict: a response that is still read keeps the waits it was asked for with.
        self._request.extensions = {**self._request.extensions, "timeout": timeouts}

    def check_time(self) -> None:
        """For an answer that trickles in: none of its waits is long, but together they may be."""
        if time.monotonic() >= self._ends:
            raise httpx.ReadTimeout(
                "the deadline is over, and the answer is not whole", request=self._request
            )

    def after(self, wanted: float | None = None, *, at_work: bool = False) -> float | None:
        """Seconds until the next try, `wanted` by the server or ours to choose; None if this was the last.

        To wait for a first try that is `at_work` is no failure: only the deadline ends that, or that one try is all.
        """
        self._pauses += 1
        self._failures += not at_work
        pause = self._rules.pause(self._pauses)
        if wanted is not None:
            pause = max(wanted, self._rules.backoff) if at_work else wanted
        allowed = self._failures < self._rules.tries and self._rules.tries > 1
        return pause if allowed and time.monotonic() + pause < self._ends else None


def _shorter(left: float, given: float | None) -> float:
    return left if given is None else min(left, given)


def may_pass(response: httpx.Response) -> bool:
    """Whether another try could be answered differently. What was stored will be the same for ever."""
    if response.headers.get("Idempotent-Replayed", "").lower() == "true":
        return False
    # A server of somebody else says in words of its own that the first try is at work, but asks to come again.
    return response.status_code in PASSING or (
        response.status_code == 409 and "Retry-After" in response.headers
    )


def is_in_progress(response: httpx.Response, body: bytes) -> bool:
    """Of a 409: whether it says that the first try is still at work."""
    if not is_json(response):
        return False
    try:
        plain = httpx.Response(response.status_code, headers=response.headers, content=body).content
        problem = msgspec.json.decode(plain, type=_Problem)
    except (httpx.DecodingError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return (problem.error or problem).code in IN_PROGRESS


def is_short(response: httpx.Response) -> bool:
    """Whether it is to be read whole: what says that it is short, and problems of which a proxy took the length."""
    size = response.headers.get("Content-Length")
    if size is None:
        return response.status_code == 409 and is_json(response)
    return size.isascii() and size.isdigit() and int(size[:20]) <= _LARGEST_KEPT


def is_json(response: httpx.Response) -> bool:
    return "json" in response.headers.get("Content-Type", "").lower()


def retry_after(response: httpx.Response) -> float | None:
    """Seconds, from either form of the header (RFC 9110, 10.2.3); None where it says nothing usable."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def default_key() -> str:
    return new_id()
