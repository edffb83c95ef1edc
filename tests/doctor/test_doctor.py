"""Each finding on a real server that is set up wrongly, and silence on one that is set up right."""

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from dupeproof import ConfigError, Inbox, Once, Outbox, Relay, StoreUnavailable
from dupeproof.cli.app import run
from dupeproof.core.records import ClaimRequest, Terms
from dupeproof.doctor import Severity, examine, postgres, sqlite
from dupeproof.doctor.redis import Client, pack, target
from dupeproof.stores import open_store
from dupeproof.stores.urls import parse_url
from support.proxy import Proxy

RIGHT = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}


def codes(url, **options):
    return {finding.code: finding.severity for finding in examine(url, **options).findings}


def test_a_redis_that_is_set_up_right_is_left_alone(own_redis):
    server = own_redis(options=RIGHT)
    report = examine(server.url)
    assert (report.findings, report.exit_code) == ([], 0)
    assert report.facts["append_only"] is True
    assert report.facts["version"] == server.version


@pytest.mark.parametrize(
    ("options", "code", "severity"),
    [
        ({"maxmemory-policy": "allkeys-lru"}, "eviction", Severity.ERROR),
        ({"maxmemory-policy": "volatile-ttl"}, "eviction", Severity.ERROR),
        ({"appendonly": "no", "save": ""}, "no-persistence", Severity.ERROR),
        ({"appendonly": "no", "save": "60 1"}, "snapshots-only", Severity.WARNING),
        ({"appendfsync": "everysec"}, "fsync", Severity.NOTE),
        ({"appendfsync": "no"}, "fsync", Severity.WARNING),
        ({"maxmemory": "1mb"}, "memory-full", Severity.WARNING),
    ],
)
def test_a_redis_that_would_forget_is_found(own_redis, options, code, severity):
    assert codes(own_redis(options=RIGHT | options).url) == {code: severity}


def test_replicas_that_nobody_waits_for_are_found(own_redis):
    primary = own_redis(options=RIGHT)
    own_redis(options={"replicaof": f"127.0.0.1 {primary.port}"})
    give_up = time.monotonic() + 20
    while codes(primary.url) != {"replicas-unasked": Severity.WARNING}:
        assert time.monotonic() < give_up
        time.sleep(0.1)
    [finding] = examine(primary.url).findings
    assert finding.what.startswith("1 replica is connected")
    _ask(primary.url, pack(b"ACL", b"SETUSER", b"app", b"on", b">pw", b"~*", b"+@all", b"-config"))
    blind = examine(primary.url.replace("redis://", "redis://app:pw@"))
    assert [each.code for each in blind.findings] == ["config-hidden"], "nobody knows what is set"
    _ask(primary.url, pack(b"CONFIG", b"SET", b"min-replicas-to-write", b"1"))
    assert codes(primary.url) == {}


def _ask(url, command):
    client = Client(target(parse_url(url)))
    try:
        return client.primaries()[0].ask(command)
    finally:
        client.close()


def test_a_url_that_leads_to_a_replica_is_found(own_redis):
    primary = own_redis(options=RIGHT)
    replica = own_redis(options=RIGHT | {"replicaof": f"127.0.0.1 {primary.port}"})
    assert codes(replica.url) == {"replica": Severity.ERROR}


def test_a_cluster_without_replicas_or_with_a_hole_is_found(own_redis_cluster):
    cluster = own_redis_cluster()
    found = codes(cluster.url)
    assert found["no-persistence"] == Severity.ERROR
    assert found["no-replica"] == Severity.WARNING
    assert "cluster-state" not in found
    _ask(cluster.url, pack(b"CLUSTER", b"DELSLOTS", b"0", b"1"))
    assert codes(cluster.url)["cluster-state"] == Severity.ERROR


def test_a_user_who_may_not_read_the_configuration_is_told(own_redis):
    server = own_redis(options=RIGHT)
    _ask(server.url, pack(b"ACL", b"SETUSER", b"app", b"on", b">pw", b"~*", b"+@all", b"-config"))
    url = server.url.replace("redis://", "redis://app:pw@")
    report = examine(url)
    assert [finding.code for finding in report.findings] == ["config-hidden"]
    assert "pw@" not in report.store


@pytest.fixture
def postgres_in_order(postgres_url):
    """With tables, and a database whose users have a lock timeout."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        Inbox("g").create_schema(connection)
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET lock_timeout = '5s'")
    return postgres_url


def sql(url, *statements):
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.replace("{db}", connection.info.dbname))


def test_a_postgres_that_is_set_up_right_is_left_alone(postgres_in_order):
    report = examine(postgres_in_order, window="7d", redelivery="7d")
    assert (report.findings, report.exit_code) == ([], 0)


@pytest.mark.parametrize(
    ("statements", "code", "severity"),
    [
        (["ALTER DATABASE {db} SET synchronous_commit = off"], "synchronous-commit", Severity.ERROR),
        (["ALTER DATABASE {db} SET synchronous_commit = local"], "synchronous-commit", Severity.WARNING),
        (["ALTER DATABASE {db} RESET lock_timeout"], "lock-timeout", Severity.NOTE),
        (["DELETE FROM dupeproof_migrations WHERE version = 2"], "old-tables", Severity.WARNING),
        (["INSERT INTO dupeproof_migrations VALUES (9999, 'later')"], "newer-tables", Severity.WARNING),
        (
            ["INSERT INTO dupeproof_marks VALUES (gen_random_uuid(), now() - interval '3 hours')"],
            "purge-behind",
            Severity.WARNING,
        ),
        (
            [
                """INSERT INTO dupeproof_outbox (shard, created_at, id, aggregatetype, type, payload)
                VALUES (0, now() - interval '1 hour', 'm', 't', '', '')"""
            ],
            "outbox-backlog",
            Severity.WARNING,
        ),
        (
            [
                """INSERT INTO dupeproof_outbox_dead
                (shard, seq, created_at, id, aggregatetype, type, payload, attempts, error)
                VALUES (0, 1, now(), 'm', 't', '', '', 5, 'E')"""
            ],
            "outbox-dead",
            Severity.WARNING,
        ),
        (
            [
                "ALTER TABLE dupeproof_marks SET (autovacuum_enabled = off)",
                "INSERT INTO dupeproof_marks SELECT gen_random_uuid(), 'infinity' FROM generate_series(1, 15000)",
                "DELETE FROM dupeproof_marks",
            ],
            "bloat",
            Severity.WARNING,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_postgres_that_would_not_keep_its_word_is_found(postgres_in_order, statements, code, severity):
    sql(postgres_in_order, *statements)
    give_up = time.monotonic() + 20
    while codes(postgres_in_order) != {code: severity}:  # its statistics come a moment later
        assert time.monotonic() < give_up, codes(postgres_in_order)
        time.sleep(0.2)


def test_a_postgres_without_tables_is_told(postgres_url):
    assert codes(postgres_url) == {"no-tables": Severity.NOTE, "lock-timeout": Severity.NOTE}


def test_a_postgres_that_lost_a_table_is_told(postgres_in_order):
    sql(postgres_in_order, "DROP TABLE dupeproof_outbox_dead", "DROP TABLE dupeproof_marks")
    assert codes(postgres_in_order) == {"missing-tables": Severity.ERROR}
    [finding] = examine(postgres_in_order).findings
    assert finding.what.endswith("missing: dupeproof_marks, dupeproof_outbox_dead")


def test_a_long_transaction_is_found(postgres_in_order, monkeypatch):
    monkeypatch.setattr(postgres, "_LONG_TRANSACTION", 0.3)
    with psycopg.connect(postgres_in_order) as idle:
        idle.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT 1")
        time.sleep(0.5)
        assert codes(postgres_in_order) == {"long-transaction": Severity.WARNING}
    assert codes(postgres_in_order) == {}


def test_a_transaction_that_has_written_and_sleeps_is_found(postgres_in_order, monkeypatch):
    monkeypatch.setattr(postgres, "_LONG_TRANSACTION", 0.3)
    with psycopg.connect(postgres_in_order) as idle:
        idle.execute("CREATE TABLE mine (a int)")
        time.sleep(0.5)
        assert codes(postgres_in_order) == {"long-transaction": Severity.WARNING}
    assert codes(postgres_in_order) == {}


def test_a_long_transaction_of_another_database_is_no_matter(
    postgres_in_order, postgres_module_url, monkeypatch
):
    monkeypatch.setattr(postgres, "_LONG_TRANSACTION", 0.3)
    with psycopg.connect(postgres_module_url) as idle:
        idle.execute("CREATE TABLE mine (a int)")
        time.sleep(0.5)
        assert codes(postgres_in_order) == {}


def test_sessions_that_could_not_be_looked_at_are_told(own_postgres):
    server = own_postgres(settings={"lock_timeout": "5s"})
    url = server.create_role("app", password="apppassword")
    with psycopg.connect(server.url) as other:
        other.execute("SELECT 1")
        assert codes(url).get("unseen-sessions") is Severity.NOTE
        server.sql("GRANT pg_read_all_stats TO app")
        assert "unseen-sessions" not in codes(url)


def test_a_transaction_that_was_prepared_and_forgotten_is_found(own_postgres, monkeypatch):
    monkeypatch.setattr(postgres, "_LONG_TRANSACTION", 0.3)
    server = own_postgres(settings={"max_prepared_transactions": "2", "lock_timeout": "5s"})
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE mine (a int)")
        connection.execute("PREPARE TRANSACTION 'forgotten'")
    time.sleep(0.5)
    assert "long-transaction" in codes(server.url)


def test_a_postgres_that_syncs_nothing_is_found(own_postgres):
    server = own_postgres(settings={"fsync": "off", "autovacuum": "off", "lock_timeout": "5s"})
    assert codes(server.url) == {
        "fsync": Severity.ERROR,
        "autovacuum": Severity.WARNING,
        "no-tables": Severity.NOTE,
    }


@pytest.mark.parametrize(("mode", "found"), [("statement", True), ("transaction", False)])
def test_a_pooler_that_knows_no_transactions_is_found(postgres_in_order, own_pgbouncer, mode, found):
    pooler = own_pgbouncer(postgres_in_order, pool_mode=mode)
    assert ("statement-pooling" in codes(pooler.url)) is found


def test_a_window_shorter_than_the_redelivery_is_found(postgres_in_order):
    assert codes(postgres_in_order, window="1d", redelivery="7d") == {"window-too-short": Severity.ERROR}
    with psycopg.connect(postgres_in_order) as connection:
        Inbox("billing").change_window(connection, timedelta(hours=4))
    report = examine(postgres_in_order, window="30d", redelivery="1d")
    [finding] = report.findings
    assert "billing is 4h" in finding.what


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shop.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.check()
    return path


def test_a_file_that_is_in_order_is_left_alone(file):
    report = examine(f"sqlite:///{file}")
    assert (report.findings, report.exit_code) == ([], 0)


def test_a_file_in_another_journal_mode_is_found(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    assert codes(f"sqlite:///{file}") == {"journal": Severity.WARNING}
    assert codes(f"sqlite:///{file}?synchronous=normal").keys() == {"journal", "synchronous"}


def test_a_claim_under_hold_never_expires_and_is_not_waiting_for_a_purge(file):
    with closing(open_store(f"sqlite:///{file}")) as store:
        store.claim([ClaimRequest(b"k" * 16, b"t" * 8, Terms("ns", lease=60_000, window=1, hold=True))])
    assert codes(f"sqlite:///{file}") == {}


class Doubtful(Exception):
    """It may have happened."""


def doubtful():
    raise Doubtful


def test_keys_that_wait_for_a_person_are_found(durable_url):
    with Once(durable_url, namespace="billing", hold_on=Doubtful) as once:
        once.run("fine", int)
        assert not {"held-keys", "dead-keys"} & codes(durable_url).keys()
        for number in range(2):
            with pytest.raises(Doubtful):
                once.run(f"k{number}", doubtful)
    with Once(durable_url, namespace="mail", max_attempts=1) as once, pytest.raises(Doubtful):
        once.run("k", doubtful)
    found = {each.code: each for each in examine(durable_url).findings}
    assert found["held-keys"].severity is found["dead-keys"].severity is Severity.WARNING
    assert found["held-keys"].what.startswith("2 keys are held, the oldest for ")
    assert found["dead-keys"].what.startswith("1 key is dead")


def test_a_relay_that_is_gone_is_told_from_one_that_is_slow(file):
    url = f"sqlite:///{file}"

    def backlog():
        return next(each.what for each in examine(url).findings if each.code == "outbox-backlog")

    with closing(sqlite3.connect(file)) as connection, connection:
        for _ in range(2):
            Outbox().add(connection, topic="t", payload=1)
    with Relay(url, publisher=lambda message: None) as relay:
        relay.run_once()
    assert codes(url) == {}
    with closing(sqlite3.connect(file)) as connection, connection:
        Outbox().add(connection, topic="t", payload=1)
        connection.execute("UPDATE dupeproof_outbox SET created_at = 1")
    assert backlog().endswith("d")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "UPDATE dupeproof_outbox_shards SET lease_until = lease_until - 3600000 WHERE lease_until > 0"
        )
    assert backlog().endswith(", and no relay has taken any for 1h")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE dupeproof_outbox_shards SET lease_until = 0")
    assert backlog().endswith(", and no relay was ever here")


def test_a_file_that_nobody_purges_is_found(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO dupeproof_marks VALUES (x'00', 1, x'', x'')")
        Outbox().add(connection, topic="t", payload=1)
        connection.execute("UPDATE dupeproof_outbox SET created_at = 1")
    assert codes(f"sqlite:///{file}").keys() == {"purge-behind", "outbox-backlog"}


def test_a_file_of_somebody_else_lacks_the_tables(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE other (a)")
    assert codes(f"sqlite:///{tmp_path}/other.db") == {"no-tables": Severity.NOTE}


def test_a_file_of_an_older_version_is_found(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TABLE dupeproof_lateness")
    assert codes(f"sqlite:///{file}") == {"old-tables": Severity.WARNING}
    with closing(open_store(f"sqlite:///{file}")) as store:
        store.check()
    assert codes(f"sqlite:///{file}") == {}


def test_a_damaged_file_is_found(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        [(page,)] = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'dupeproof_marks_expiry'"
        )
    with file.open("r+b") as raw:
        raw.seek((page - 1) * 4096)
        raw.write(b"\xff" * 4096)
    assert codes(f"sqlite:///{file}")["damaged"] == Severity.ERROR


def test_a_network_file_system_is_found_in_a_table_of_mounts(file, tmp_path):
    """The table is made up: nothing can be mounted here."""
    mounts = tmp_path / "mountinfo"
    folder = tmp_path / "größe und name"
    folder.mkdir()
    file = file.rename(folder / file.name)
    point = str(folder).replace(" ", "\\040")
    lines = ["1 0 8:1 / / rw - ext4 /dev/sda1 rw", f"2 1 0:5 / {point} rw - nfs4 server:/share rw"]
    mounts.write_text("\n".join(lines))
    found = [finding.code for finding in sqlite.judge(sqlite.look(file, "full", mounts))]
    assert found == ["network-file-system"]
    assert sqlite.file_system(file) not in sqlite.NETWORKED


def test_looking_makes_no_file_and_changes_none(tmp_path, file):
    with pytest.raises(ConfigError, match="no file"):
        examine(f"sqlite:///{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(ConfigError, match="can look at"):
        examine("memory://")
    (tmp_path / "text.db").write_text("hello " * 1_000)
    with pytest.raises(ConfigError, match="cannot be read"):
        examine(f"sqlite:///{tmp_path}/text.db")


def test_servers_that_are_not_there_are_unavailable():
    for url in ("redis://127.0.0.1:1/0?timeout=1s", "postgresql://u:secret@127.0.0.1:1/db?timeout=1s"):
        with pytest.raises(StoreUnavailable) as caught:
            examine(url)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("between", ["+", " + "])
def test_a_fast_tier_may_forget(own_redis, postgres_in_order, between):
    redis = own_redis()
    assert "no-persistence" in codes(redis.url)
    report = examine(f"{redis.url}{between}{postgres_in_order}")
    assert report.findings == []


def test_a_fast_tier_may_be_behind_sentinels(redis_sentinel_url, postgres_in_order, file):
    for durable in (postgres_in_order, f"sqlite:///{file}"):
        report = examine(f"{redis_sentinel_url}+{durable}")
        assert report.facts["fast kind"] == "sentinel"
        assert {each.code for each in report.findings} <= {"no-replica"}


@pytest.mark.parametrize(
    "which",
    [
        pytest.param("redis_url", marks=pytest.mark.server("redis")),
        pytest.param("postgres_url", marks=pytest.mark.server("postgres")),
    ],
)
def test_a_server_that_is_far_away_is_found(request, which):
    with closing(Proxy(request.getfixturevalue(which), delay=0.03)) as far:
        report = examine(far.url)
    [slow] = [each for each in report.findings if each.code == "slow"]
    assert (slow.severity, report.facts["latency"] >= 30) == (Severity.WARNING, True)


def test_a_clock_that_is_wrong_is_found(postgres_in_order, faketime):
    command = [*faketime(1), sys.executable, "-m", "dupeproof", "doctor"]
    done = subprocess.run(
        [*command, postgres_in_order, "--json"], check=False, capture_output=True, text=True, timeout=60
    )
    report = json.loads(done.stdout)
    assert [finding["code"] for finding in report["findings"]] == ["clock"]
    assert (report["exit_code"], done.returncode) == (1, 1)


def test_the_command_exits_by_severity(file, postgres_in_order, capsys):
    assert run(["doctor", f"sqlite:///{file}"]) == 0
    assert "Nothing found" in capsys.readouterr().out
    assert run(["doctor", f"sqlite:///{file}", "--window", "1h", "--redelivery", "2h"]) == 2
    shown = capsys.readouterr().out
    assert "why" in shown
    assert "fix" in shown
    assert run(["doctor", f"sqlite:///{file}", "--window", "soon"]) == 2


def test_what_others_wrote_is_shown_as_it_is(file, capsys):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO dupeproof_windows VALUES ('[/bold][red]x', 1000)")
    assert run(["doctor", f"sqlite:///{file}", "--redelivery", "2h"]) == 2
    assert "[/bold][red]x" in capsys.readouterr().out
