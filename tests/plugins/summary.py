"""End the run with a table: which server or tool, which version, how many tests ran on it, what was left out and why."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from .selection import EMBEDDED, KEY, NEEDS, Selection


@dataclass
class Row:
    ran: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


class Summary:
    """Counts as the reports come in. A test that needs two servers counts for both."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self.rows: dict[str, Row] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        over = report.when == "call" or (report.when == "setup" and not report.passed)
        if not over:
            return
        for name in dict(report.user_properties).get(NEEDS) or [EMBEDDED]:
            row = self.rows.setdefault(name, Row())
            if report.skipped and not hasattr(report, "wasxfail"):
                text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
                row.left_out[text.removeprefix("Skipped: ")] += 1
            else:
                row.ran += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Whoever requires a server also minds a test that skipped itself."""
        told = getattr(session.config, "workeroutput", None)
        if told is not None:  # one of several processes that share the tests
            told["versions"], told["deselected"] = self._selection.versions, self._selection.deselected
        if session.exitstatus == pytest.ExitCode.OK and self._broken():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """What a process knew that nobody else does."""
        told = getattr(node, "workeroutput", {})
        self._selection.versions |= told.get("versions", {})
        self._selection.deselected |= told.get("deselected", {})

    def _broken(self) -> list[str]:
        return [name for name, row in self.rows.items() if name in self._selection.required and row.left_out]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name, count in self._selection.deselected.items():
            if count:
                self.rows.setdefault(name, Row()).left_out["--no-servers"] += count
        if not self.rows:
            return
        terminalreporter.section("servers and tools")
        terminalreporter.write_line(f"{'server':<16}{'version':<12}{'ran':>6}  left out")
        for name in sorted(self.rows, key=lambda name: (name != EMBEDDED, name)):
            row = self.rows[name]
            version = "no server" if name == EMBEDDED else self._selection.versions.get(name, "-")
            reasons = "; ".join(f"{count}: {reason}" for reason, count in row.left_out.most_common()) or "0"
            terminalreporter.write_line(f"{name:<16}{version:<12}{row.ran:>6}  {reasons}")
        for name in self._broken():
            terminalreporter.write_line(f"REQUIRE_SERVERS wants {name}, and tests were left out", red=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Summary(config.stash[KEY]), "server-summary")
