"""Which key goes along when a server sends a request elsewhere. Pure.

httpx follows redirects above its transports: what comes is a new request, with the headers and the extensions of the one before.
So the trail of a key is kept in the extensions, and the key that was copied is looked at before it is sent.
"""

import httpx
from msgspec import Struct

from dupeproof.keys.ids import content_id

_PORTS = {"http": 80, "https": 443}


class Trail(Struct, frozen=True):
    """The way of one request: what it began with, and where it was sent last."""

    key: str
    """The caller's, or the one made for the request."""
    method: str
    start: httpx.URL
    """Whose key it is to know."""
    sent: str | None
    """What was sent last, if anything, and where to."""
    place: httpx.URL

    @classmethod
    def of(cls, request: httpx.Request, key: str) -> "Trail":
        return cls(key=key, method=request.method, start=request.url, sent=key, place=request.url)

    def goes_on_with(self, request: httpx.Request, found: str | None) -> bool:
        """Whether a request is the next on this way, by the key it has; a caller may have given it another, or none."""
        return found in (self.key, self.sent) and (found is not None or request.method != self.method)

    def followed_by(self, request: httpx.Request) -> "Trail":
        """To another origin goes a key that follows from ours and from that origin: the same when all begins again, and
        nobody there learns ours. What has become a GET asks for a result, and needs none.
        """
        sent: str | None
        if request.method != self.method:
            sent = None
        elif may_know(self.place, request.url):
            sent = self.sent
        elif may_know(self.start, request.url):
            sent = self.key
        else:
            sent = content_id(self.key, context=list(origin(request.url)))
        return Trail(key=self.key, method=self.method, start=self.start, sent=sent, place=request.url)


def may_know(source: httpx.URL, target: httpx.URL) -> bool:
    """Whether the key of one is for the other, too: the rule httpx has for Authorization, so both go or neither does."""
    scheme, host, port = origin(source)
    secured = ("https", host, 443) if (scheme, port) == ("http", 80) else None
    return origin(target) in ((scheme, host, port), secured)


def origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, _PORTS.get(url.scheme) if url.port is None else url.port
