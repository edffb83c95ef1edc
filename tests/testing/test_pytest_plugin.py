"""The fixtures for users, as their page shows them, in a pytest run of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

PAGE = (Path(__file__).parents[2] / "docs/howto/testing.md").read_text()
EXAMPLE = next(
    block
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if "conftest" in block
)
TWICE = """
import psycopg
import pytest
from dupeproof import Once

@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_begins_with_nothing(turn, dupeproof_postgres, dupeproof_redis):
    with psycopg.connect(dupeproof_postgres) as connection:
        connection.execute("CREATE TABLE mine (id integer)")
    with Once(dupeproof_redis) as once:
        assert once.seen("m-1") is False
"""


def run(folder, test, *options):
    (folder / "conftest.py").write_text('pytest_plugins = ["dupeproof.testing.pytest_plugin"]\n')
    (folder / "test_own.py").write_text(test)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        folder,
        *options,
        folder,
    ]
    return subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)


@pytest.mark.server("postgres", "redis")
@pytest.mark.parametrize("test", [EXAMPLE, TWICE], ids=["page", "twice"])
def test_a_users_tests_run_on_servers_of_their_own(tmp_path, test):
    ran = run(tmp_path, test)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


HERE = """
import psycopg

def test_where(dupeproof_postgres):
    with psycopg.connect(dupeproof_postgres) as connection:
        [name] = connection.execute("SELECT current_database()").fetchone()
        connection.execute("CREATE TABLE mine (id integer)")
    assert name.startswith("dupeproof_")
"""


@pytest.mark.parametrize("options", ["", "?dbname=postgres", "?application_name=a&dbname=postgres"])
def test_a_database_of_the_users_own_is_never_written_to(tmp_path, postgres_url, monkeypatch, options):
    """Also where POSTGRES_URL names it in a way that wins over the path."""
    monkeypatch.setenv("POSTGRES_URL", postgres_url + options)
    ran = run(tmp_path, HERE)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
    with psycopg.connect(postgres_url + options) as connection:
        assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)


def test_one_redis_is_not_shared_by_test_processes(tmp_path, redis_url, monkeypatch):
    monkeypatch.setenv("REDIS_URL", redis_url)
    ran = run(tmp_path, "def test_one(dupeproof_redis): pass\n", "-n", "2")
    assert ran.returncode == 1
    assert "REDIS_URL is one Redis" in ran.stdout


def test_nothing_is_started_for_tests_that_ask_for_nothing(tmp_path):
    ran = run(tmp_path, "def test_nothing(tmp_path): pass\n", "--setup-show")
    assert "SETUP    F tmp_path" in ran.stdout
    assert "dupeproof_" not in ran.stdout
