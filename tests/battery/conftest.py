"""The cells as fixtures, and the tables at the end of a run of the battery."""

import pytest
from battery_bare import Behaviour
from battery_servers import Running
from battery_table import BEHAVIOUR, NOTE, OUT, PAGE, PLACE, Results


class Report:
    """Collects what the tests of the battery say, in the process that has the reports of all."""

    def __init__(self) -> None:
        self._results = Results()

    def pytest_runtest_logreport(self, report):
        said = dict(report.user_properties)
        if PLACE not in said or (report.when != "call" and report.passed):
            return
        if report.when == "call" and BEHAVIOUR in said:
            self._results.bare[said[PLACE][0]] = Behaviour(*said[BEHAVIOUR])
        elif len(said[PLACE]) == 2:
            self._results.checks[tuple(said[PLACE])] = outcome(report, said.get(NOTE))

    def pytest_terminal_summary(self, terminalreporter, config):
        results = self._results
        if not results.checks and not results.bare:
            return
        results.write()
        terminalreporter.section(f"battery, also in {OUT}")
        terminalreporter.write(OUT.read_text())
        if config.getoption("--write-docs"):
            if results.is_complete:
                results.write_page()
            else:
                terminalreporter.write_line(f"{PAGE} stays as it is: not all cells ran", red=True)


def outcome(report, note):
    """In the table: what a failed check said, or why it could not be made."""
    if report.passed:
        return f"ok ({note})" if note else "ok"
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(report.longrepr) if crash is None else crash.message
    line = text.splitlines()[0].removeprefix("battery_checks.Deviation: ")
    return f"**{line[:80].replace('|', '/')}**"


def pytest_addoption(parser):
    parser.addoption(
        "--write-docs", action="store_true", help="write the tables of the battery into the documentation"
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "battery(cell, check): what came out is shown in this place of the table"
    )
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(), "battery-report")


def pytest_collection_modifyitems(items):
    """Said by every report, also that of a test that did not come to run."""
    for item in items:
        mark = item.get_closest_marker("battery")
        if mark is not None:
            item.user_properties.append((PLACE, list(mark.args)))


@pytest.fixture(scope="module")
def running_cell(request, tmp_path_factory):
    """The server of a cell, through all of its checks."""
    server, framework = request.param
    running = Running(tmp_path_factory.mktemp("cell"), server, f"cell_{framework}")
    yield running
    running.kill()


@pytest.fixture
def cell(running_cell):
    if not running_cell.is_alive:
        running_cell.kill()
        running_cell.start()
    return running_cell


@pytest.fixture
def bare(request, tmp_path):
    """A server with an app that has neither framework nor guard."""
    running = Running(tmp_path, request.param, "bare")
    yield running
    running.kill()
