"""What the guard around a view needs to know of a framework's requests and responses."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from dupeproof.http.answers import Answer, Headers

R = TypeVar("R")
READ_BEFORE = "something has read the body of this request away, so it cannot be compared; let that use {}, which keeps it"


class ReadBody(NamedTuple):
    content_type: bytes
    chunks: Iterable[bytes]


class Incoming(Protocol):
    """A request of the framework's. Nothing of its body is read before `body` is called."""

    request: Any
    method: str
    path: str
    query: bytes
    environ: dict[str, Any]

    def key_values(self, header: str) -> Sequence[str]: ...

    def body(self, limit: int) -> ReadBody:
        """The body, which the view can still read after. Raises `Refused`."""
        ...


class Framework(Protocol[R]):
    def respond(self, answer: Answer) -> R: ...

    def seen(self, response: R, limit: int) -> Answer:
        """The response as it will go out; its body None where it is a stream, or larger than the limit."""
        ...

    def add(self, response: R, headers: Headers) -> None: ...
