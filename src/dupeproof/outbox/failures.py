"""What is said of a failure by a publisher, whose text may hold secrets."""

import re

from dupeproof.stores.urls import redact

_URL = re.compile(r"[\w+.-]+://\S+")
_SECRET = re.compile(
    r"(?i)\b(\w*(?:password|passwd|secret|token|api[_-]?key|authorization)\w*)(\W{1,4})(?:(?:bearer|basic)\s+)?\S+"
)
_LONGEST = 500


class HeldBack(Exception):
    """The result for a message that was not tried, because one before it with its key failed or the time was up."""


class PublisherDown(Exception):
    """Nothing can be published for now; the messages are not to blame. Raised inside a relay only."""


def publisher_down(cause: Exception) -> PublisherDown:
    down = PublisherDown(described(cause))
    down.__cause__ = cause
    return down


def described(error: BaseException) -> str:
    """Type and text, one line, without passwords in URLs and what follows words like `password`."""
    text = _URL.sub(lambda found: redact(found[0]), " ".join(str(error).split()))
    text = _SECRET.sub(r"\1\2***", text).replace("\0", "")
    name = type(error).__qualname__
    return f"{name}: {text}"[:_LONGEST] if text else name
