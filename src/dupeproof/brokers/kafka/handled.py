"""Which records of a partition are done with, where not all before one are. Pure.

Kafka removes nothing from the middle of a topic. A group has a position in it, before which everything is done; what is done
behind that stands in the text that Kafka keeps with a position.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from dupeproof.errors import ConfigError

_LONGEST = 4_096
"""Bytes of that text, by Kafka's default (`offset.metadata.max.bytes`)."""
_TEXT = re.compile(r"dupeproof(?: [0-9a-f]+\+[0-9a-f]+)*")


class Handled(Struct, frozen=True):
    position: int
    beyond: tuple[tuple[int, int], ...] = ()
    """Ranges behind it, each up to before its second number; in order, and apart from each other."""

    def __contains__(self, offset: int) -> bool:
        return offset < self.position or any(first <= offset < end for first, end in self.beyond)

    def and_also(self, ranges: Sequence[tuple[int, int]]) -> "Handled":
        position = self.position
        beyond: list[tuple[int, int]] = []
        for first, end in sorted([*self.beyond, *ranges]):
            if first <= position:
                position = max(position, end)
            elif beyond and first <= beyond[-1][1]:
                beyond[-1] = beyond[-1][0], max(beyond[-1][1], end)
            else:
                beyond.append((first, end))
        return Handled(position, tuple(beyond))

    @property
    def text(self) -> str:
        """Each range by how far it is from the one before, and how long."""
        words, last = ["dupeproof"], self.position
        for first, end in self.beyond:
            words.append(f"{first - last:x}+{end - first:x}")
            last = end
        text = " ".join(words)
        if len(text) > _LONGEST:
            raise ConfigError(
                f"dead letters at {len(self.beyond):,} places between others are done with, and Kafka has no room to remember "
                "more; retry or drop the oldest first, or all with --all"
            )
        return text


def read(position: int, text: str) -> Handled:
    """What was committed. Another text is of somebody who has moved the position with other tools."""
    if position < 0:
        return Handled(0)
    last, beyond = position, []
    for word in text.split()[1:] if _TEXT.fullmatch(text) else ():
        distance, length = (int(part, 16) for part in word.split("+"))
        beyond.append((last + distance, last + distance + length))
        last = beyond[-1][1]
    return Handled(position, tuple(beyond))
