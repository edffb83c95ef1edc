"""Know which servers and tools each test needs, whether they can be had, and what to do when they cannot."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from dupeproof_lab.servers import ServerMissing, install, jars

# A test needs a server or a tool when it asks, through whatever other fixtures, for one of these. One that picks its
# fixture at run time (request.getfixturevalue) says so with the mark `server("redis")` or `tool("faketime")`.
FIXTURES = {
    "redis_server": "redis",
    "redis_cluster": "redis_cluster",
    "redis_sentinel": "redis_sentinel",
    "valkey_server": "valkey",
    "postgres_server": "postgres",
    "mariadb_server": "mariadb",
    "rabbitmq_server": "rabbitmq",
    "nats_server": "nats",
    "kafka_server": "kafka",
    **{f"own_{name}": name for name in install.SERVERS},
    "own_chromium": "chromium",
    "curl": "curl",
    "faketime": "faketime",
    "promtool": "promtool",
    "wrk": "wrk",
}
MARKS = {"server": install.SERVERS, "tool": install.TOOLS}
KNOWN = install.SERVERS | install.TOOLS
EMBEDDED = "embedded"
"""What the table calls the tests that need neither."""


def needs_of(item: pytest.Item) -> set[str]:
    """What a test says it needs, by marks and fixtures. After this it has the marks, so that `-m tool` finds it."""
    needs = {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
    for kind, known in MARKS.items():
        marked = {name for mark in item.iter_markers(kind) for name in mark.args}
        if unknown := marked - known.keys():
            raise pytest.UsageError(f"{item.nodeid}: {kind}({min(unknown)!r}) is none of {', '.join(known)}")
        if unmarked := (needs & known.keys()) - marked:
            item.add_marker(getattr(pytest.mark, kind)(*sorted(unmarked)))
        needs |= marked
    return needs


class Selection:
    """The one place that knows, during a run, what is wanted, what is missing, and what must not be."""

    def __init__(self, *, no_servers: bool) -> None:
        self.no_servers = no_servers
        self.needs: dict[str, set[str]] = {}  # by test
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.deselected: dict[str, int] = dict.fromkeys(KNOWN, 0)
        self.current: str | None = None
        wanted = os.environ.get("REQUIRE_SERVERS", "").replace(",", " ").split()
        if unknown := set(wanted) - {*KNOWN, "all"}:
            raise pytest.UsageError(
                f"REQUIRE_SERVERS: {min(unknown)!r} is none of {', '.join(KNOWN)}, or all"
            )
        self.required = {*KNOWN, EMBEDDED} if "all" in wanted else set(wanted)

    @staticmethod
    def given(name: str) -> str | None:
        """The address of a server one has already. A tool is always our own."""
        return os.environ.get(install.variable(name)) or None if name in install.SERVERS else None

    def leave_out(self, name: str, reason: str) -> NoReturn:
        """End the running test: left out, or failed where nothing may be."""
        if name in self.required:
            pytest.fail(f"REQUIRE_SERVERS wants {name}: {reason}", pytrace=False)
        pytest.skip(reason)

    def declared(self, name: str) -> None:
        """A test that was not known to need this server would be missing from the table, and run by --no-servers."""
        if self.current is not None and name not in self.needs[self.current]:
            kind = next(kind for kind, known in MARKS.items() if name in known)
            pytest.fail(f"this test uses {name} without saying so: mark it with pytest.mark.{kind}({name!r})")

    def own(self, name: str) -> None:
        """Before a tool is used, or a server is started that the test may kill, restart or pause."""
        self.declared(name)
        if name in self.missing:
            self.leave_out(name, self.missing[name])
        if self.given(name) is not None:
            self.leave_out(
                name, f"{install.variable(name)} is set, and this test needs a server it may kill or pause"
            )


NEEDS = "servers"
"""The property of a report that tells which servers and tools its test needs, to whoever counts."""
KEY = pytest.StashKey[Selection]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-servers", action="store_true", help="run only the tests that need no server and no tool"
    )


@pytest.hookimpl(tryfirst=True)  # the other plugins find it in the stash
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "server(name, ...): this test needs these servers")
    config.addinivalue_line("markers", "tool(name, ...): this test needs these tools")
    config.stash[KEY] = Selection(no_servers=config.getoption("--no-servers"))


def pytest_report_header(config: pytest.Config) -> str:
    selection = config.stash[KEY]
    if selection.no_servers:
        return "servers: none (--no-servers)"
    return "servers: " + ", ".join(f"{name} {_origin(selection, name)}" for name in KNOWN)


def _origin(selection: Selection, name: str) -> str:
    if selection.given(name) is not None:
        return f"at {install.variable(name)}"
    return install.version(name) or f"from package {' '.join(KNOWN[name].packages)}"


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection = config.stash[KEY]
    selection.needs = {item.nodeid: needs_of(item) for item in items}
    for item in items:
        item.user_properties.append((NEEDS, sorted(selection.needs[item.nodeid])))
    if selection.no_servers:
        left = [item for item in items if selection.needs[item.nodeid]]
        for item in left:
            for name in selection.needs[item.nodeid]:
                selection.deselected[name] += 1
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not selection.needs[item.nodeid]]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install here and not in a fixture, where it would count against the time limit of the first test."""
    selection = session.config.stash[KEY]
    if session.config.option.collectonly:
        return
    wanted = {name for item in session.items for name in selection.needs[item.nodeid]}
    for name in sorted(wanted):
        if selection.given(name) is None:
            try:
                with one_at_a_time():
                    found = install.ensure(name)
                    if name == "kafka":
                        jars.ensure(found["mvn"])
                selection.versions[name] = install.version(name) or "?"
            except ServerMissing as error:
                selection.missing[name] = str(error)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Of the processes that share the tests: a package is not installed twice at once."""
    with (Path(tempfile.gettempdir()) / f"dupeproof-install-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    selection = item.config.stash[KEY]
    selection.current = item.nodeid
    try:
        return (yield)
    finally:
        selection.current = None
