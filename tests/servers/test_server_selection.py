"""What the run does with tests whose server is missing, given, or not wanted: seen from outside, on a run of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_plain(): pass
def test_shared(redis_url): pass
def test_own(own_redis): own_redis()

@pytest.mark.server("redis")
def test_marked(request): request.getfixturevalue("redis_url")
def test_unmarked(request): request.getfixturevalue("redis_url")

def test_shifted(faketime): assert "LD_PRELOAD" in faketime(1)[1]
@pytest.mark.tool("faketime")
def test_marked_shifted(request): request.getfixturevalue("faketime")
def test_unmarked_shifted(request): request.getfixturevalue("faketime")

def test_that_leaves_itself_out(): pytest.skip("not today")
"""
NOTHING = {"PATH": "/nonexistent", "INSTALL_SERVERS": "no"}
PLAIN = ["-k", "plain or shared or own or test_marked and not shifted"]
TOOLS = ["-k", "shifted and not unmarked"]


@pytest.fixture
def run(tmp_path):
    """Run those tests with some arguments and variables: the exit code and the output."""
    (tmp_path / "test_inner.py").write_text(TESTS)

    def run(*arguments, **variables):
        plugins = [word for name in ("selection", "servers", "summary") for word in ("-p", f"plugins.{name}")]
        command = [sys.executable, "-m", "pytest", *plugins, *arguments]
        unset = {"REDIS_URL", "REQUIRE_SERVERS", "PYTEST_ADDOPTS"}
        env = {name: value for name, value in os.environ.items() if name not in unset}
        env |= {"PYTHONPATH": str(Path(__file__).parent.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        env |= {"COLUMNS": "400", **variables}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def row(output, name):
    """The line of the closing table, its spaces made single."""
    table = output.partition(" servers ")[2]
    return next((" ".join(line.split()) for line in table.splitlines() if line.startswith(name + " ")), None)


def test_a_missing_server_leaves_its_tests_out_and_says_why(run):
    code, output = run(*PLAIN, **NOTHING)
    assert code == 0, output
    assert row(output, "embedded") == "embedded no server 1 0"
    assert row(output, "redis").startswith(
        "redis - 0 3: redis is missing (it is installed for you only with INSTALL_SERVERS=yes)"
    )


@pytest.mark.parametrize("wanted", ["all", "redis", "postgres,redis"])
def test_a_missing_server_that_is_required_fails_the_run(run, wanted):
    code, output = run(*PLAIN, REQUIRE_SERVERS=wanted, **NOTHING)
    assert code == 1
    assert "REQUIRE_SERVERS wants redis: redis is missing" in output


def test_a_missing_tool_leaves_its_tests_out_and_says_why(run):
    code, output = run(*TOOLS, **NOTHING)
    assert code == 0, output
    assert row(output, "faketime").startswith(
        "faketime - 0 2: faketime is missing (it is installed for you only with INSTALL_SERVERS=yes)"
    )
    assert "FAKETIME_URL" not in output


@pytest.mark.parametrize("wanted", ["all", "faketime"])
def test_a_missing_tool_that_is_required_fails_the_run(run, wanted):
    code, output = run(*TOOLS, REQUIRE_SERVERS=wanted, **NOTHING)
    assert code == 1
    assert "REQUIRE_SERVERS wants faketime: faketime is missing" in output


@pytest.mark.tool("faketime")
def test_tools_are_in_the_table_and_must_be_asked_for(run):
    code, output = run("-k", "shifted")
    assert code == 1
    assert "mark it with pytest.mark.tool('faketime')" in output
    assert row(output, "faketime").split()[2:] == ["2", "0"]


def test_the_marks_find_what_fixtures_ask_for(run):
    for kind, count in (("tool", 2), ("server", 3)):
        _, output = run("-m", kind, "--collect-only", "-q")
        assert f"{count}/9 tests collected" in output


def test_a_test_that_leaves_itself_out_fails_a_run_that_wants_all(run):
    assert run("-k", "leaves_itself_out")[0] == 0
    code, output = run("-k", "leaves_itself_out", REQUIRE_SERVERS="all")
    assert code == 1
    assert "REQUIRE_SERVERS wants embedded, and tests were left out" in output


def test_a_server_nobody_knows_cannot_be_required(run):
    code, output = run(REQUIRE_SERVERS="oracle")
    assert code == 4
    assert "'oracle' is none of redis," in output


def test_no_servers_runs_the_rest(run):
    code, output = run("--no-servers", *PLAIN)
    assert code == 0, output
    assert row(output, "redis") == "redis - 0 3: --no-servers"


@pytest.mark.server("redis")
def test_a_test_that_hides_its_need_fails(run):
    code, output = run("-k", "not shifted")
    assert code == 1
    assert "mark it with pytest.mark.server('redis')" in output
    assert row(output, "redis").split()[2:] == ["3", "0"]


def test_a_given_server_is_used_but_not_killed(run, own_redis):
    server = own_redis()
    code, output = run(*PLAIN, REDIS_URL=server.url)
    assert code == 0, output
    assert row(output, "redis").startswith(
        f"redis {server.version} 2 1: REDIS_URL is set, and this test needs"
    )
    code, output = run(*PLAIN, REDIS_URL=server.url, REQUIRE_SERVERS="all")
    assert code == 1


def test_a_given_server_with_data_is_not_touched(run, own_redis):
    server = own_redis()
    with server.connect() as resp:
        resp.call("SET", "precious", "1")
    code, output = run("-k", "shared", REDIS_URL=server.url)
    assert code == 0, output
    assert "REDIS_URL holds 1 keys" in row(output, "redis")
    with server.connect() as resp:
        assert resp.call("GET", "precious") == "1"
