"""What a database holds, in a form in which two of them can be compared."""

import contextlib
import sqlite3
import subprocess

import sqlalchemy
from sqlalchemy.pool import NullPool

from dupeproof_lab.servers import install

DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}


def engine_url(url):
    scheme, _, rest = url.partition("://")
    return f"{DRIVERS[scheme]}://{rest}"


@contextlib.contextmanager
def connected(url):
    """A transaction of SQLAlchemy, on an engine that leaves nothing open."""
    engine = sqlalchemy.create_engine(engine_url(url), poolclass=NullPool)
    with engine.begin() as connection:
        yield connection


def catalogue(url):
    return {"postgresql": _postgresql, "mysql": _mysql, "sqlite": _sqlite}[url.partition(":")[0]](url)


def _postgresql(url):
    """As pg_dump writes it, without what differs between any two dumps."""
    tool = install.ensure("postgres")["initdb"].with_name("pg_dump")
    dumped = subprocess.run(
        [tool, "--schema-only", "--no-owner", url], capture_output=True, text=True, check=True
    ).stdout
    return "\n".join(line for line in dumped.splitlines() if not line.startswith(("--", "\\")))


def _sqlite(url):
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        tables = connection.execute(
            "SELECT name, type, ncol, wr, strict FROM pragma_table_list WHERE name LIKE 'dupeproof%' ORDER BY name"
        ).fetchall()
        found = {}
        for row in tables:
            columns = connection.execute(f"PRAGMA table_xinfo({row[0]})").fetchall()
            indexes = {}
            for _, index, unique, origin, partial in connection.execute(f"PRAGMA index_list({row[0]})"):
                where = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [index]).fetchone()
                indexes[index] = (
                    unique,
                    origin,
                    partial,
                    connection.execute(f"PRAGMA index_xinfo({index})").fetchall(),
                    where and where[0] and where[0].partition(" WHERE ")[2],
                )
            found[row] = (columns, indexes)
        numbered = connection.execute("SELECT count(*) FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'")
        return found, numbered.fetchone()


def _mysql(url):
    with connected(url) as connection:
        return [
            connection.exec_driver_sql(text).fetchall()
            for text in (
                (
                    "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = database()"
                    " AND table_name LIKE 'dupeproof%%' ORDER BY 1"
                ),
                (
                    "SELECT table_name, ordinal_position, column_name, column_type, is_nullable, column_default,"
                    " character_set_name, collation_name, extra FROM information_schema.columns"
                    " WHERE table_schema = database() AND table_name LIKE 'dupeproof%%' ORDER BY 1, 2"
                ),
                (
                    "SELECT table_name, index_name, seq_in_index, column_name, non_unique"
                    " FROM information_schema.statistics WHERE table_schema = database()"
                    " AND table_name LIKE 'dupeproof%%' ORDER BY 1, 2, 3"
                ),
            )
        ]
