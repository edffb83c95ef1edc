# Written by tools/twins.py from src/dupeproof/http/client/transport_async.py; change that file instead.
"""IdempotentTransport: one key per request, kept over all tries."""

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

import httpx

from dupeproof import defaults
from dupeproof.core.durations import Duration
from dupeproof.core.events import logger
from dupeproof.http.client.retries import (
    UNANSWERED,
    Course,
    Retrying,
    default_key,
    is_in_progress,
    is_short,
    may_pass,
    retry_after,
)


class IdempotentTransport(httpx.BaseTransport):
    """For `httpx.Client(transport=IdempotentTransport())`.

    Each POST and PATCH gets an `Idempotency-Key` before it is first sent, unless the caller gave one. It is sent again,
    with that key and that body, after errors that leave open whether it arrived, after 425, 429, 502, 503 and 504, after a
    409 with `Retry-After`, and while a 409 says that the first try is still at work; never after another answer, nor after
    one the server has replayed. Requests that HTTP calls idempotent are sent again too, without a key. A server that does not know the header
    may run a request as often as it is sent; give such hosts another transport, with `mounts=`.

    A pause is what `Retry-After` says, or twice the last one with some jitter. Of failures there may be as many as `tries`;
    a first try that is still at work is waited for until the deadline. No try begins after `deadline`, and no wait for the
    server lasts longer than what is left of it; then the last answer is returned, or the last error raised.

    A client that follows redirects (`follow_redirects=True`) keeps the key within an origin, and from http to https of one
    host. Another origin is given a key that follows from yours and from that origin: it is the same if you begin again with
    yours, which is not learned there. A redirect that makes a GET of the request, as 303 does, takes no key along. Each request
    on the way has a `deadline` of its own, and httpx counts them (`max_redirects`). A host for which the client has another
    transport is sent the key as httpx does it, unchanged.

    An answer of known size, up to 1 MiB, is read before it is returned, so that a connection that breaks in the middle of
    it counts as no answer; and so is a 409 that may say that the first try is still at work. Larger ones and streams are passed on as they come.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        header: str = "Idempotency-Key",
        methods: Iterable[str] = ("POST", "PATCH"),
        tries: int = 8,
        deadline: Duration = defaults.CLIENT_DEADLINE,
        backoff: Duration = defaults.CLIENT_BACKOFF,
        longest_backoff: Duration = defaults.CLIENT_LONGEST_BACKOFF,
        make_key: Callable[[], str] = default_key,
    ) -> None:
        self._rules = Retrying(
            header=header,
            methods=methods,
            tries=tries,
            deadline=deadline,
            backoff=backoff,
            longest_backoff=longest_backoff,
            make_key=make_key,
        )
        self._transport = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not self._rules.prepared(request):
            return self._transport.handle_request(request)
        request.read()  # a stream can be sent once only
        course = self._rules.course(request)
        try:
            return self._answered(request, course)
        finally:
            course.unbound()

    def _answered(self, request: httpx.Request, course: Course) -> httpx.Response:
        while True:
            course.bound()
            try:
                response = self._transport.handle_request(request)
                response = _whole(response, course)
                at_work = _is_at_work(response)
                if not at_work and not may_pass(response):
                    return response
            except UNANSWERED as exc:
                pause, reason = course.after(), type(exc).__name__
                if pause is None:
                    raise
            else:
                pause = course.after(retry_after(response), at_work=at_work)
                reason = str(response.status_code)
                if pause is None:
                    return response
                response.close()
            logger.info("%s is tried again in %.1f s, after %s", request.method, pause, reason)
            time.sleep(pause)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(kind, exc, traceback)


def _whole(response: httpx.Response, course: Course) -> httpx.Response:
    """The same answer, read to its end where that is near; the bytes are as they came, for the client to decode."""
    if not is_short(response):
        return response
    stream: Any = response.stream
    content, size = b"", response.headers.get("Content-Length")
    try:
        for chunk in stream:
            content += chunk
            if size is None or len(content) < int(size):
                course.check_time()
    finally:
        response.close()
    return httpx.Response(
        response.status_code,
        headers=response.headers,
        stream=httpx.ByteStream(content),
        extensions=response.extensions,
    )


def _is_at_work(response: httpx.Response) -> bool:
    if response.status_code != 409 or not isinstance(response.stream, httpx.ByteStream):
        return False
    return is_in_progress(response, b"".join(response.stream))
