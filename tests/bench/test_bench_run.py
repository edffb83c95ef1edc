"""The benchmark from end to end, with next to no load: every row is there, and proves what it does."""

from pathlib import Path

import msgspec
import psycopg
import pytest
import redis
from bench_tiny import TINY, run_tiny

from dupeproof.cli.app import run
from dupeproof_lab.bench.benchmarks import HEATS
from dupeproof_lab.bench.command import conclude
from dupeproof_lab.bench.growth import GROWING
from dupeproof_lab.bench.run import Request, total
from dupeproof_lab.bench.size import LAYOUTS
from dupeproof_lab.servers import Redis, ServerFailed

ABSENT = ("this version of dupeproof has no", "is not installed", "too few to weigh")


def check_rows(report, *stores):
    """Every candidate is in the table, and ran unless something it needs is not here."""
    names = [each.name for store in stores for benchmark in HEATS[store] for each in benchmark.candidates]
    assert [row.name for row in report.results.rows] == names
    for row in report.results.rows:
        ran = len(row.speeds) == TINY.rounds and min(row.speeds) > 0
        assert ran or any(words in row.reason for words in ABSENT), f"{row.name}: {row.reason}"
    layouts = [layout.name for store in stores for layout in LAYOUTS if layout.store == store]
    assert [weight.layout for weight in report.results.weights] == layouts
    for weight in report.results.weights:
        assert weight.count > 0 or any(words in weight.reason for words in ABSENT), weight


@pytest.fixture(scope="module")
def embedded():
    told = []
    return run_tiny("memory", "sqlite", scaling=True, told=told), told


def test_memory_and_sqlite_have_all_rows(embedded):
    check_rows(embedded[0], "memory", "sqlite")


def test_the_progress_ends_where_it_was_said_to(embedded):
    report, told = embedded
    request = Request(stores=("memory", "sqlite"), plan=TINY, pin="none", given={}, scaling=True)
    absent = sum(len(TINY.sizes) for growth in report.results.growths if growth.reason)
    assert len(told) == total(request) - absent


def test_stores_grow_beside_a_small_one(embedded):
    growths = embedded[0].results.growths
    assert [growth.name for growth in growths] == [
        each.name for each in GROWING if each.store in ("memory", "sqlite")
    ]
    for growth in growths:
        sizes = [point.size for point in growth.points]
        assert sizes == list(TINY.sizes) or ABSENT[0] in growth.reason
        assert all(len(point.ratios) == TINY.rounds for point in growth.points)


def test_json_has_it_all_and_the_files_are_there(embedded, tmp_path, capsys):
    report, _ = embedded
    assert conclude(report, tmp_path / "new" / "folder", check=False, as_json=True) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["pin"] == "none"
    assert found["machine"]["python"] == report.machine.python
    assert [row["name"] for row in found["rows"]] == [row.name for row in report.results.rows]
    assert [goal["title"] for goal in found["goals"]] == [each.title for each in report.verdicts]
    assert [row["method"] for row in found["published"]] == [each.method for each in report.published]
    for kind in ("picture", "scaling picture"):
        assert Path(found["files"][kind]).read_bytes().startswith(b"\x89PNG")
    page = Path(found["files"]["page"]).read_text()
    assert page.count("<svg") == 2
    assert all(row.who in page for row in report.results.rows)


def test_tables_say_why_a_figure_is_missing(embedded, tmp_path, capsys):
    conclude(embedded[0], tmp_path, check=False, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Not measured (redis was left out)" in shown
    assert "pinned none" in shown
    assert "As the store grows" in shown


@pytest.mark.server("redis")
def test_a_redis_of_its_own_has_all_rows(own_redis):
    check_rows(run_tiny("redis"), "redis")


@pytest.mark.server("postgres")
def test_a_postgres_of_its_own_has_all_rows(own_postgres):
    check_rows(run_tiny("postgres"), "postgres")


def test_a_given_redis_keeps_what_it_had_and_what_is_ours_expires(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.set("somebody's", "1")
        check_rows(run_tiny("redis", given={"redis": redis_url}), "redis")
        keys = client.keys()
        assert len(keys) > 1
        assert [key for key in keys if client.ttl(key) == -1] == [b"somebody's"]


def test_a_given_postgres_has_the_databases_of_before(postgres_url, monkeypatch):
    monkeypatch.setitem(HEATS, "postgres", HEATS["postgres"][:1])

    def databases():
        with psycopg.connect(postgres_url) as connection:
            return connection.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall()

    before = databases()
    report = run_tiny("postgres", given={"postgres": postgres_url})
    assert all(row.speeds for row in report.results.rows)
    assert databases() == before


def test_a_server_that_does_not_start_is_in_the_table_with_the_reason(monkeypatch):
    def fails(_):
        raise ServerFailed("redis://:secret@127.0.0.1:1/0 does not answer")

    monkeypatch.setattr(Redis, "start", fails)
    report = run_tiny("redis")
    reasons = {row.reason for row in report.results.rows}
    assert len(reasons) == 1
    assert "does not answer" in reasons.pop()
    assert "secret" not in msgspec.json.encode(report.results).decode()


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dupeproof_lab.bench.command.QUICK", TINY)
    command = ["bench", "--quick", "--only", "memory", "--rounds", "5", "--json", "--out", str(tmp_path)]
    assert run(command) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["quick"], found["pin"], found["rounds"]) == (True, "same", 5)
    assert {row["store"] for row in found["rows"]} == {"memory"}
    assert Path(found["files"]["picture"]).exists()
