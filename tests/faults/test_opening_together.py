"""Many processes that meet an empty store at the same moment: the schema is made once, and nobody fails."""

import contextlib
import sqlite3

from dupeproof.stores.postgres.migrations import migrations
from dupeproof_lab.servers.postgres import run_sql
from support.crowds import crowd
from support.stores import on

COUNT = 16


@on("sqlite", "new_postgres")
def test_sixteen_processes_open_an_empty_database_at_the_same_moment(url, tmp_path):
    seen = crowd(url, tmp_path / "ledger", ["key"], count=COUNT, on_busy="wait", wait="30s")
    assert seen.errors == []
    assert seen.runs == {"key": 1}
    assert len(seen.answers) == COUNT
    if url.startswith("postgresql"):
        counted = run_sql(url, "SELECT version || ' ' || count(*) FROM dupeproof_migrations GROUP BY version")
        assert sorted(counted.splitlines()) == sorted(f"{each.version} 1" for each in migrations())
    else:
        with contextlib.closing(sqlite3.connect(tmp_path / "dedup.db")) as database:
            assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_thirty_processes_open_an_empty_file_at_the_same_moment(tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db"
    seen = crowd(url, tmp_path / "ledger", ["key", "other"], count=30, on_busy="wait", wait="30s")
    assert seen.errors == []
    assert seen.runs == {"key": 1, "other": 1}
