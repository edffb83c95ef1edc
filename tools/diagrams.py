"""Draw the diagrams of the documentation from the code they show: python tools/diagrams.py [--check].

The table stands between two lines of a page, and only there is written. The picture is a file of its own, which needs no script to be
seen: a column for each state, a line for each event.
"""

import re
import sys
from pathlib import Path

from dupeproof.core.states import TABLE, Event, State

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "states.md", DOCS / "images/states.svg"
PLACE = "<!-- drawn: {0} -->\n{1}<!-- /drawn: {0} -->"
LEFT, COLUMN, TOP, ROW = 250, 96, 56, 34
TIP, DOT = 9, 5
INK, PALE, ARROW = "#24292f", "#d0d7de", "#3f51b5"


def table() -> str:
    """What may happen in which state, and what comes of it."""
    rows = [
        f"| {event} | " + " | ".join(events.get(event, "") for events in TABLE.values()) for event in Event
    ]
    head = "| | " + " | ".join(TABLE)
    return "\n".join(f"{row} |" for row in [head, "|---" * (len(TABLE) + 1), *rows])


def picture() -> str:
    """The same as SVG: an event's line has a dot in each state where it may happen, and points to the state that comes of it."""
    places = {state: LEFT + COLUMN // 2 + COLUMN * number for number, state in enumerate(TABLE)}
    width, height = LEFT + COLUMN * len(TABLE), TOP + ROW * len(Event) + 12
    columns = [
        f'<text x="{x}" y="34" text-anchor="middle" font-weight="bold">{state}</text>'
        f'<path d="M{x} {TOP - 10}V{height - 12}" stroke="{PALE}"/>'
        for state, x in places.items()
    ]
    rows = [_row(event, places, TOP + ROW * number + ROW // 2) for number, event in enumerate(Event)]
    size = f'viewBox="0 0 {width} {height}"'
    font = f'font-family="sans-serif" font-size="14" fill="{INK}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}>',
            "<title>What happens to a key, and the state that comes of it</title>",
            f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
            *columns,
            *rows,
            "</svg>\n",
        ]
    )


def _row(event: Event, places: dict[State, int], y: int) -> str:
    sources = [state for state, events in TABLE.items() if event in events]
    [after] = {TABLE[state][event] for state in sources}  # one event leads to one state, wherever it happens
    xs, end = [places[state] for state in sources], places[after]
    parts = [
        f"<g><title>{event}: from {', '.join(sources)} to {after}</title>",
        f'<text x="12" y="{y + 5}">{event}</text>',
        f'<path d="M{min([*xs, end])} {y}H{max([*xs, end])}" stroke="{ARROW}" stroke-width="2"/>',
        *(f'<circle cx="{x}" cy="{y}" r="{DOT}" fill="{ARROW}"/>' for x in xs if x != end),
    ]
    if end in xs:  # it stays, or comes back to, where it is
        parts.append(
            f'<circle cx="{end}" cy="{y}" r="{DOT + 2}" fill="#ffffff" stroke="{ARROW}" stroke-width="2"/>'
        )
    gap = DOT + 3 if end in xs else 0
    for side in sorted({(x > end) - (x < end) for x in xs} - {0}):
        tip, back = end + side * gap, end + side * (gap + TIP)
        parts.append(f'<path d="M{tip} {y}L{back} {y - 6}V{y + 6}Z" fill="{ARROW}"/>')
    return "".join([*parts, "</g>"])


def drawn(text: str) -> str:
    place = re.search(PLACE.format("events", ".*?"), text, re.DOTALL)
    if place is None:
        sys.exit(f"{PAGE} has no place for the table: {PLACE.format('events', '')}")
    return text[: place.start()] + PLACE.format("events", f"{table()}\n") + text[place.end() :]


def main() -> None:
    wanted = {PAGE: drawn(PAGE.read_text()), PICTURE: picture()}
    for path, after in wanted.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(after)
        elif not path.exists() or path.read_text() != after:
            sys.exit(f"{path} is not what core/states.py says; run: python tools/diagrams.py")


if __name__ == "__main__":
    main()
