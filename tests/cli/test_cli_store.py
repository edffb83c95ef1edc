"""purge, schema and stats: a whole store on the command line."""

import os
import signal
import sqlite3
import subprocess
import sys

import msgspec
import pytest

from dupeproof import Once
from dupeproof.core.records import Mark
from dupeproof.stores import open_store


def expired(url, count):
    store = open_store(url)
    store.mark([Mark(os.urandom(16), window=1) for _ in range(count)])
    while store.stats().expired < count:
        pass
    return store


def test_stats_counts_what_is_there(dupeproof, url):
    with Once(url) as once:
        once.seen("msg-1")
        once.run("o-1", lambda: 1)
    counted = dupeproof("stats", url, "--json").json
    assert (counted["marks"], counted["records"], counted["expired"]) == (1, {"done": 1}, 0)
    assert "records done" in dupeproof("stats", url).out


@pytest.mark.parametrize("driver", ["aiosqlite", "pysqlite"])
def test_every_command_takes_a_url_as_sqlalchemy_writes_it(dupeproof, url, driver):
    theirs = url.replace("sqlite", f"sqlite+{driver}", 1)
    for words in (
        ("schema", theirs, "--apply"),
        ("windows", "set", theirs, "billing", "4h"),
        ("outbox", "status", theirs),
        ("purge", theirs),
        ("stats", theirs),
        ("doctor", theirs),
    ):
        ran = dupeproof(*words)
        assert (ran.code, ran.err) == (0, ""), words
    assert "billing" in dupeproof("windows", "list", url).out
    ran = dupeproof("stats", "postgresql+nonsense://u:secret@h/d")
    assert ran.code != 0
    assert "names a driver that dupeproof does not know" in ran.err
    assert "secret" not in ran.err


def test_purge_makes_one_pass_and_tells_what_went(dupeproof, url):
    expired(url, 25).close()
    facts = dupeproof("purge", url, "--batch", 10, "--json").json
    assert (facts["removed"], facts["batches"], facts["complete"], facts["expired"]) == (25, 3, True, 0)
    assert dupeproof("purge", url).out.startswith("removed 0 in 1 batch and")


def test_purge_refuses_what_is_no_batch_and_no_duration(dupeproof, url):
    expired(url, 1).close()
    assert "batch must be" in dupeproof("purge", url, "--batch", 0).err
    assert "is not a duration" in dupeproof("purge", url, "--every", "often").err


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_purge_as_a_service_goes_on_until_it_is_asked_to_end(url, end):
    store = expired(url, 25)
    command = [sys.executable, "-m", "dupeproof", "purge", url, "--every", "10ms", "--json"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert msgspec.json.decode(service.stdout.readline())["count"] == 25
    store.mark([Mark(os.urandom(16), window=1) for _ in range(5)])
    while msgspec.json.decode(service.stdout.readline())["count"] != 5:
        pass
    service.send_signal(end)
    _, complaints = service.communicate()
    assert (service.returncode, complaints) == (0, "")
    store.close()


def test_purge_as_a_service_does_not_end_when_the_store_is_down(tmp_path):
    broken = tmp_path / "broken.db"
    broken.write_text("this is no database, and long enough to be seen as none" * 20)
    service = subprocess.Popen(
        [sys.executable, "-m", "dupeproof", "purge", "--every", "10ms", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DUPEPROOF_URL": f"sqlite:///{broken}"},
    )
    for _ in range(3):
        assert msgspec.json.decode(service.stdout.readline())["event"] == "store_down"
    service.send_signal(signal.SIGTERM)
    _, complaints = service.communicate()
    assert service.returncode == 0
    assert "Purging failed" in complaints


def test_schema_prints_sql_that_makes_the_tables(dupeproof, url, tmp_path):
    ran = dupeproof("schema", url)
    assert ran.code == 0
    assert not list(tmp_path.iterdir())
    connection = sqlite3.connect(":memory:")
    connection.executescript(ran.out)
    assert connection.execute("SELECT count(*) FROM dupeproof_marks").fetchone() == (0,)
    connection.close()


def test_schema_applied_twice_is_fine(dupeproof, url):
    assert dupeproof("schema", url, "--apply").code == 0
    assert dupeproof("schema", url, "--apply").code == 0
    assert dupeproof("stats", url).code == 0


def test_schema_of_postgresql_is_applied_once(dupeproof, postgres_url):
    assert "applied 1" in dupeproof("schema", postgres_url, "--apply").out
    assert "up to date" in dupeproof("schema", postgres_url, "--apply").out
    assert "CREATE TABLE dupeproof_marks" in dupeproof("schema", postgres_url).out


def test_redis_has_no_schema(dupeproof):
    ran = dupeproof("schema", "redis://:secret@127.0.0.1:1/0")
    assert ran.code == 0
    assert "redis://:***@127.0.0.1:1/0 has no schema" in ran.out


@pytest.mark.parametrize("command", ["stats", "purge"])
def test_a_mistyped_file_is_an_error_and_not_a_new_store(dupeproof, tmp_path, command):
    ran = dupeproof(command, f"sqlite:///{tmp_path}/typo.db")
    assert ran.code == 2
    assert "there is no file" in ran.err
    assert not list(tmp_path.iterdir())


def test_a_store_in_memory_cannot_be_seen_from_outside(dupeproof):
    ran = dupeproof("stats", "memory://shared")
    assert ran.code == 2
    assert "inside one process" in ran.err


@pytest.mark.parametrize("which", ["redis_url", "postgres_url"])
@pytest.mark.server("redis", "postgres")
def test_servers_are_counted_and_purged(dupeproof, request, which):
    url = request.getfixturevalue(which)
    with Once(url) as once:
        once.seen("msg-1")
    assert dupeproof("stats", url, "--json").json["marks"] == 1
    assert dupeproof("purge", url, "--json").json["removed"] == 0
