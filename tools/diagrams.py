"""Draw the diagrams of the documentation from the code they show: python tools/diagrams.py [--check].

Each stands between two lines of a page, and only there is written.
"""

import re
import sys
from pathlib import Path

from dupeproof.core.states import TABLE, Event, diagram

PAGE = Path(__file__).parent.parent / "docs/states.md"
PLACE = "<!-- drawn: {0} -->\n{1}<!-- /drawn: {0} -->"


def table() -> str:
    """What may happen in which state, and what comes of it."""
    rows = [
        f"| {event} | " + " | ".join(events.get(event, "") for events in TABLE.values()) for event in Event
    ]
    head = "| | " + " | ".join(TABLE)
    return "\n".join(f"{row} |" for row in [head, "|---" * (len(TABLE) + 1), *rows])


DRAWINGS = {"states": f"```mermaid\n{diagram()}\n```", "events": table()}


def drawn(text: str) -> str:
    for name, drawing in DRAWINGS.items():
        place = re.search(PLACE.format(name, ".*?"), text, re.DOTALL)
        if place is None:
            sys.exit(f"{PAGE} has no place for {name}: {PLACE.format(name, '')}")
        text = text[: place.start()] + PLACE.format(name, f"{drawing}\n") + text[place.end() :]
    return text


def main() -> None:
    before = PAGE.read_text()
    after = drawn(before)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(after)
    elif before != after:
        sys.exit(f"{PAGE} is not what core/states.py says; run: python tools/diagrams.py")


if __name__ == "__main__":
    main()
