"""Who changed what, and what came of it: a line before and a line after, so that a crash in between shows."""

import logging
from collections import deque
from datetime import UTC, datetime

from msgspec import Struct

logger = logging.getLogger("dupeproof.audit")
_SHOWN = 200


class Line(Struct, frozen=True, kw_only=True):
    at: datetime
    who: str
    """The address, and the session where there is one."""
    did: str
    what: str
    """A digest or the id of a message; never a key."""
    outcome: str


class Audit:
    """Everything goes to the log `dupeproof.audit`; the latest lines are kept to be shown."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=_SHOWN)

    def write(self, *, who: str, did: str, what: str, outcome: str) -> Line:
        line = Line(at=datetime.now(UTC), who=who, did=did, what=what, outcome=outcome)
        self._lines.appendleft(line)
        logger.info("%s", _one_line(f"{who}: {did} {what}: {outcome}"))
        return line

    def lines(self, what: str | None = None) -> list[Line]:
        """The latest first; of one thing, or of all."""
        return [line for line in self._lines if what is None or line.what == what]


def _one_line(text: str) -> str:
    """What is no letter is shown by its number: the id of a message may hold a line that looks like one of ours."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
