"""What is said of a failure by a publisher, whose text may hold secrets."""

import re

from dupeproof.stores.urls import redact

_URL = re.compile(r"[\w+.-]+://\S+")
_SECRET = re.compile(
    r"(?i)\b(\w*(?:password|passwd|pwd|secret|token|api[_-]?key|authorization|signature|sig)\w*)(\s+is\s+|['\"]?\s*[:=]\s*|\s+)"
    r"(?!authentication failed)(?:(?:bearer|basic)\s+)?(?:\"[^\"]*\"|'[^']*'|\S+)"
    r"|\b(bearer|basic)(\s+)\S{8,}"
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
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is
        said = ""
    said = said.encode("utf-8", "replace").decode()  # file names may hold what no database takes
    text = _URL.sub(lambda found: redact(found[0]), " ".join(said.split()))
    text = _SECRET.sub(lambda found: f"{found[1] or found[3]}{found[2] or found[4]}***", text).replace(
        "\0", ""
    )
    name = type(error).__qualname__
    return f"{name}: {text}"[:_LONGEST] if text else name
