"""Who changed what, and what came of it: a line before and a line after, so that a crash in between shows."""

import logging
from collections import deque
from datetime import UTC, datetime

from msgspec import Struct

logger = logging.getLogger("dupeproof.audit")
_SHOWN = 2_000
_BEGINS = "begins"


class Line(Struct, frozen=True, kw_only=True, eq=False):
    at: datetime
    who: str
    """The name of a person."""
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

    def begin(self, *, who: str, did: str, what: str) -> Line:
        return self.write(who=who, did=did, what=what, outcome=_BEGINS)

    def end(self, begun: Line, outcome: str) -> Line:
        """What is shown is what came of it; the log keeps both lines."""
        if begun in self._lines:
            self._lines.remove(begun)
        return self.write(who=begun.who, did=begun.did, what=begun.what, outcome=outcome)

    def lines(self, what: str | None = None) -> list[Line]:
        """The latest first; of one thing, or of all."""
        return [line for line in self._lines if what is None or line.what == what]


def _one_line(text: str) -> str:
    """What is no letter is shown by its number: the id of a message may hold a line that looks like one of ours."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
