"""The response of a WSGI app, held back until it is whole and its key is settled."""

import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from itertools import chain
from math import inf
from types import TracebackType

from dupeproof.http._sync.exchange import Exchange
from dupeproof.http.answers import Answer, Headers
from dupeproof.http.bodies import Body
from dupeproof.http.keeping import can_be_kept, has_length, is_unbuffered
from dupeproof.http.rules import Rules
from dupeproof.http.statuses import Fate

ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
StartResponse = Callable[..., Callable[[bytes], object]]


class Outlet:
    """Gives the app its `start_response`, takes its chunks, settles the key, then speaks to the server.

    What cannot be kept, a stream or what is too large, is settled as done before its first byte goes out.
    """

    def __init__(
        self, exchange: Exchange, start_response: StartResponse, request: Body, rules: Rules
    ) -> None:
        self._exchange = exchange
        self._start_response = start_response
        self._request = request
        self._limit = rules.response_limit
        self._patience = rules.stream_after
        self._line = ""
        self._headers: list[tuple[str, str]] = []
        self._chunks: list[bytes] = []
        self._size = 0
        self._is_passing = False
        """Bytes may go out: those that were kept first, by the server's `write` or before the rest of the app's."""
        self._write: Callable[[bytes], object] | None = None
        """The server's, if it has one: there are servers that have not, and few apps that ask for it."""
        self._iterable: Iterable[bytes] = ()

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None
    ) -> Callable[[bytes], object]:
        """What the app calls as `start_response`."""
        if self._is_passing:
            return self._start_response(status, headers, exc_info)  # too late, as the server will say
        if exc_info is not None:  # it starts anew, and nothing has gone out yet
            self._chunks.clear()
            self._size = 0
        self._line, self._headers = status, headers
        return self._take

    def take(self, iterable: Iterable[bytes]) -> Iterable[bytes]:
        """What the app returned; what to return in its place."""
        self._iterable = iterable
        chunks = iter(iterable)
        if not self._line:  # some call it only now
            self._take(next(chunks, b""))
        headers = _encoded(self._headers)
        # Lists are whole, and so is what Django says is.
        goes_on = not hasattr(iterable, "__len__") and bool(getattr(iterable, "streaming", True))
        if can_be_kept(self._status, headers, self._limit) and not (goes_on and is_unbuffered(headers)):
            ends = time.monotonic() + self._patience if goes_on and not has_length(headers) else inf
            while not self._is_passing:
                chunk = next(chunks, None)
                if chunk is None:
                    return self._whole()
                self._take(chunk)
                if time.monotonic() > ends:
                    break
        self._pass()
        kept, self._chunks = self._chunks, []
        return _Rest(self, chain(kept, chunks))

    def answer(self, answer: Answer) -> Iterable[bytes]:
        """In place of what the app said."""
        return send_answer(self._start_response, answer)

    def close(self) -> None:
        self._request.close()
        close = getattr(self._iterable, "close", None)
        if close is not None:
            close()

    def _take(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._limit:
            self._pass()
        if self._write is not None:
            for each in self._chunks:
                self._write(each)
            self._chunks.clear()

    @property
    def _status(self) -> int:
        return int(self._line[:3])

    def _settle(self, body: bytes | None) -> None:
        headers = _encoded(self._headers)
        self._headers = self._headers + decoded(self._exchange.settle(self._status, headers, body))

    def _whole(self) -> Iterable[bytes]:
        if self._exchange.handling.done is not None:
            answer = self._exchange.repeat(self._exchange.handling.done)
            return _Closing(self.answer(answer), self.close)
        body = b"".join(self._chunks)
        self._settle(body)
        self._start_response(self._line, self._headers)
        return _Closing([body], self.close)

    def _pass(self) -> None:
        """From here on the app speaks to the server directly."""
        if self._is_passing:
            return
        # What will not be stored may not be given back while its handler still runs.
        if self._exchange.fate(self._status) is Fate.STORE:
            self._settle(None)
        self._write = self._start_response(self._line, self._headers)
        self._is_passing = True

    def end(self, interruption: BaseException | None) -> None:
        if self._exchange.settled:
            return
        if interruption is None:
            self._settle(None)
        elif isinstance(interruption, Exception):
            self._exchange.failed(interruption)
        else:
            self._exchange.abandon(interruption)


class _Rest:
    """What is left of a response that goes out as it comes."""

    def __init__(self, outlet: Outlet, chunks: Iterator[bytes]) -> None:
        self._outlet = outlet
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except StopIteration:
            self._outlet.end(None)
            raise
        except BaseException as exc:
            self._outlet.end(exc)
            raise

    def close(self) -> None:
        self._outlet.end(GeneratorExit())
        self._outlet.close()


class _Closing:
    def __init__(self, chunks: Iterable[bytes], close: Callable[[], None]) -> None:
        self._chunks = chunks
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)


def send_answer(start_response: StartResponse, answer: Answer) -> list[bytes]:
    start_response(status_line(answer.status), decoded(answer.headers))
    return [answer.body or b""]


def status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unassigned"


def decoded(headers: Headers) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").title(), value.decode("latin-1")) for name, value in headers]


def _encoded(headers: list[tuple[str, str]]) -> Headers:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
