"""A whole response, and the form in which it is stored."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dupeproof.core.codecs import Codec, JsonCodec, Unstorable, origin_of
from dupeproof.core.events import logger

Headers = list[tuple[bytes, bytes]]
Pairs = Iterable[tuple[bytes, bytes]]


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A response: its status, its headers as pairs of bytes, and its body."""

    status: int
    headers: Headers
    body: bytes | None = b""
    """None: not kept, because it was too large or a stream."""

    @property
    def stored_with(self) -> Codec:
        """For those who settle a request and know no HTTP."""
        return AnswerCodec()


PLAIN = "http"
"""The name of the codec of responses that go through no other."""


class AnswerCodec:
    """Answers as MessagePack: bytes as they are, at a tenth of the cost of JSON.

    Where the user has brought a codec, which may encrypt, it is given these bytes as its value. What is no answer comes from
    a lookup, and is sent as JSON.
    """

    def __init__(self, around: Codec | None = None) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Answer).decode
        # Not one made from it, which may encrypt.
        self._around = None if type(around) is JsonCodec else around
        self.name = PLAIN if self._around is None else f"{PLAIN}+{self._around.name}"

    def encode(self, value: Any, returns: Any) -> bytes:  # noqa: ARG002 - there is one type
        data = self._encode(value if isinstance(value, Answer) else _of_value(value))
        return data if self._around is None else self._around.encode(data, bytes)

    def decode(self, data: bytes, returns: Any) -> Answer:  # noqa: ARG002
        try:
            return self._decode(data if self._around is None else self._around.decode(data, bytes))
        except Exception as exc:  # whatever the codec of the user raises, when its secret has changed, say
            logger.warning("A stored response cannot be read by codec %s: %s", self.name, type(exc).__name__)
            raise Unstorable("the stored bytes are no response") from exc

    def prepare(self, returns: Any) -> None:  # noqa: ARG002
        """There is one type. Whether a codec around us takes bytes is asked before any are lost."""
        if self._around is not None:
            self._around.prepare(bytes)


def readable(codec: Codec, data: bytes) -> Answer | None:
    """The response in these bytes, if there is one."""
    try:
        answer: Answer = codec.decode(data, Answer)
    except Unstorable:
        return None
    return answer


def given_by_hand(data: bytes, codec: str) -> Answer | None:
    """The response of a key that somebody resolved, if it is one that clients can use."""
    if codec == PLAIN:
        return readable(AnswerCodec(), data)
    _, plain = origin_of(data)
    if codec != JsonCodec.name or plain == b"null":
        return None
    return _of_json(plain)


def _of_value(value: object) -> Answer:
    return Answer(200, [], None) if value is None else _of_json(msgspec.json.encode(value))


def _of_json(body: bytes) -> Answer:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return Answer(200, headers, body)
