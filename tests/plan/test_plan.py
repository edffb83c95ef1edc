"""The sums are right, and the bytes are those that real servers take."""

import json
import os

import pytest
from rich.console import Console

from dupeproof import ConfigError
from dupeproof.cli.app import run
from dupeproof.cli.plan.measurement import measure
from dupeproof.cli.plan.plan import demand, plan
from dupeproof.cli.plan.sizes import WAYS, postgres_record, redis_record

IDS = int(os.environ.get("PLAN_IDS", "20000"))
"""A million in `make weigh`; fewer show the same but for the steps in which tables grow."""
CLOSE = 0.15 if IDS >= 1_000_000 else 0.25


@pytest.mark.parametrize(
    ("rate", "per_second"),
    [
        ("500/s", 500),
        ("2k/s", 2_000),
        ("3M/d", 3e6 / 86_400),
        ("120/m", 2),
        ("120/min", 2),
        ("7", 7),
        ("7/sec", 7),
        ("36/hour", 0.01),
        ("86400/day", 1),
        ("1.5k/s", 1_500),
        ("50_000/s", 50_000),
        ("50,000/s", 50_000),
        ("50 k/s", 50_000),
    ],
)
def test_rates_are_read_as_people_write_them(rate, per_second):
    assert demand(rate, "24h", 0).rate == pytest.approx(per_second)


@pytest.mark.parametrize(
    "rate",
    [
        "",
        "0/s",
        "-5/s",
        "many",
        "5/y",
        "5/month",
        "5/ms",
        "k/s",
        "_/s",
        "5_.5e/s",
        f"1{'0' * 400}/s",
        "2000000M/s",
    ],
)
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises(ConfigError, match="500/s"):
        demand(rate, "24h", 0)


def test_the_sums_are_right():
    made = plan(demand("50000/s", "24h", 500))
    assert made.ids == 50_000 * 86_400
    found = {each.way: each for each in made.estimates}
    assert found["redis://, marks"].total == pytest.approx(113 * made.ids)
    assert found["CompactSeen on Redis"].total < 50e9
    assert found["redis://, calls"].nodes > found["CompactSeen on Redis"].nodes
    assert found["RedisBloom, 0.1 %"].wrong == 0.001
    assert found["postgresql://, marks or inbox"].wrong < 1e-25
    assert "cluster" in made.layout


def test_the_advice_grows_with_the_rate():
    layouts = [plan(demand(rate, "24h", 100)).layout for rate in ("10/s", "3k/s", "20k/s", "5M/s")]
    assert len(set(layouts)) == 4
    assert layouts[0].startswith("sqlite")
    assert "PostgreSQL" in layouts[1]


def test_every_way_can_be_told_from_the_others_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setattr("dupeproof.cli.commands.plan.out", Console(width=80))
    assert run(["plan", "--rate", "1M/s"]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert all(word in shown for each in WAYS for word in each.name.split())


def _print(server, result, found, record, mark):
    print(
        f"{server}, {IDS:,} ids: a mark {found.mark:.0f} bytes, planned {mark} ({mark / found.mark - 1:+.0%}); "
        f"a call with {result:,} bytes {found.record:.0f}, planned {record:.0f} ({record / found.record - 1:+.0%})"
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("result", [0, 100, 500, 2_000])
def test_redis_takes_what_is_planned(own_redis, result):
    found = measure(own_redis().url, IDS, result)
    _print("Redis", result, found, redis_record(result), 113)
    assert redis_record(result) == pytest.approx(found.record, rel=CLOSE)
    assert pytest.approx(found.mark, rel=CLOSE) == 113


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("result", [0, 100, 500, 2_000])
def test_postgres_takes_what_is_planned(own_postgres, result):
    """Before a vacuum comes by: when it does is a matter of luck, and only makes it less."""
    found = measure(own_postgres(settings={"autovacuum": "off"}).url, IDS, result)
    _print("PostgreSQL", result, found, postgres_record(result), 101)
    assert postgres_record(result) == pytest.approx(found.record, rel=CLOSE)
    assert pytest.approx(found.mark, rel=CLOSE) == 101


def test_measuring_leaves_nothing_behind(redis_url, postgres_url):
    import psycopg

    from dupeproof.stores import open_store

    measure(redis_url, 1_000, 10)
    assert open_store(redis_url).stats().marks == 0
    measure(postgres_url, 1_000, 10)
    with psycopg.connect(postgres_url) as connection:
        names = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'dupeproof%'"
        ).fetchall()
    assert names == []


def test_the_command_shows_a_table_and_speaks_json(capsys, redis_url):
    assert run(["plan", "--rate", "500/s", "--window", "1h"]) == 0
    shown = capsys.readouterr().out
    assert "Next limit" in shown
    assert "redis://" in shown
    assert run(["plan", "--rate", "500/s", "--measure", redis_url, "--ids", "2000", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["measured"] is True
    assert run(["plan", "--rate", "500/s", "--measure", "sqlite:///x.db"]) == 2
