"""What came out, as tables: rows are cells, columns are checks."""

import re
from pathlib import Path

from battery_bare import Behaviour
from battery_checks import CHECKS, checks_of
from battery_servers import CELLS, SERVERS

ROOT = Path(__file__).parents[2]
OUT = ROOT / "out/battery.md"
PAGE = ROOT / "docs/http-servers.md"
PLACE, NOTE, BEHAVIOUR = "battery-place", "battery-note", "battery-behaviour"
"""Properties of a test's report: its cell and check, what is worth knowing beside `ok`, what a bare server did."""


class Results:
    """By cell and check: `ok`, or in bold what was otherwise."""

    def __init__(self) -> None:
        self.checks: dict[tuple[str, str], str] = {}
        self.bare: dict[str, Behaviour] = {}

    @property
    def is_complete(self) -> bool:
        wanted = {(f"{cell[0]}-{cell[1]}", check) for cell in CELLS for check in checks_of(*cell)}
        return wanted <= self.checks.keys() and SERVERS.keys() <= self.bare.keys()

    def of_cells(self) -> str:
        rows = [["server", "framework", *CHECKS]]
        for server, framework in CELLS:
            cell = f"{server}-{framework}"
            if any(ran == cell for ran, _ in self.checks):
                checks = checks_of(server, framework)
                found = [
                    self.checks.get((cell, each), "not run") if each in checks else "–" for each in CHECKS
                ]
                rows.append([server, framework, *found])
        return _table(rows)

    def of_servers(self) -> str:
        rows = [["server", "client hangs up", "SIGTERM, client gone", "SIGTERM, client waits"]]
        rows += [
            [server, self.bare[server].hang_up, self.bare[server].stop_gone, self.bare[server].stop_waiting]
            for server in SERVERS
            if server in self.bare
        ]
        return _table(rows)

    def write(self) -> None:
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(f"{self.of_servers()}\n{self.of_cells()}")

    def write_page(self) -> None:
        text = PAGE.read_text()
        for name, table in (("servers", self.of_servers()), ("cells", self.of_cells())):
            part = re.compile(rf"(<!-- {name}, by make battery -->\n).*?(<!-- end -->)", re.DOTALL)
            text, count = part.subn(lambda found, table=table: f"{found[1]}\n{table}\n{found[2]}", text)
            assert count == 1, f"{PAGE} has no place for the table of {name}"
        PAGE.write_text(text)


def _table(rows: list[list[str]]) -> str:
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
