"""Content codings: the same body for a client that accepts gzip, and for one that does not."""

import zlib

from dupeproof.http.answers import Answer
from dupeproof.http.headers import value_of

_WINDOWS = {b"gzip": 16 + zlib.MAX_WBITS, b"x-gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
"""The window bits that select each format of zlib."""
_LARGEST = 64 * 2**20
"""Of a body without its coding: a few bytes can become gigabytes."""


def in_accepted_coding(answer: Answer, accepts: str | None) -> Answer:
    """The answer as this client can read it, where that is in our power: another try may accept other codings."""
    coding = (value_of(answer.headers, b"content-encoding") or b"").strip().lower()
    if coding not in _WINDOWS or not answer.body or accepts_coding(accepts, coding.decode()):
        return answer
    try:
        plain = _decoded(answer.body, _WINDOWS[coding])
    except zlib.error:
        return answer  # not what it says of itself, and that is not ours to mend
    if plain is None:
        return answer
    headers = [
        (name, value)
        for name, value in answer.headers
        if name not in (b"content-encoding", b"content-length")
    ]
    return Answer(answer.status, [*headers, (b"content-length", b"%d" % len(plain))], plain)


def _decoded(body: bytes, window: int) -> bytes | None:
    """None of what is cut off or too large. Gzip may have several members, one after the other (RFC 1952, 2.2)."""
    plain, left = b"", body
    while left:
        decoder = zlib.decompressobj(window)
        plain += decoder.decompress(left, _LARGEST + 1 - len(plain))
        if not decoder.eof or len(plain) > _LARGEST:
            return None
        left = decoder.unused_data
    return plain


def accepts_coding(header: str | None, coding: str) -> bool:
    """Whether a client says that it reads this coding (RFC 9110, 12.5.3). One that says nothing may not."""
    if header is None:
        return False
    qualities: dict[str, bool] = {}
    for item in header.lower().split(","):
        name, _, parameters = item.partition(";")
        weight = parameters.replace(" ", "").removeprefix("q=")
        qualities[name.strip().removeprefix("x-")] = weight.strip("0.") != "" if weight else True
    name = coding.removeprefix("x-")
    return qualities.get(name, qualities.get("*", False))
