"""Drivers and other libraries a candidate may need: found when it is made, and named when they are missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.model import Unavailable

INSTALL = {
    "redis": "dupeproof[redis]",
    "psycopg": "dupeproof[postgres]",
    "idemkit": "idemkit[redis,postgres]",
    "aws_lambda_powertools": "aws-lambda-powertools[aws-sdk,redis]",
    "exactly_once": "exactly-once[redis,postgres]",
}
"""What brings each module."""
PEERS = {
    "idemkit": "idemkit",
    "aws_lambda_powertools": "aws-lambda-powertools",
    "exactly_once": "exactly-once",
}


def driver(name: str) -> Any:
    """The module of that name, or why there is none."""
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        wanted = INSTALL[name.partition(".")[0]]
        raise Unavailable(f'{exc.name} is not installed; run: pip install "{wanted}"') from exc


_LEAN = """
    CREATE TABLE IF NOT EXISTS bench_seen (id uuid PRIMARY KEY, expires_at timestamptz NOT NULL);
    CREATE INDEX IF NOT EXISTS bench_seen_expiry ON bench_seen (expires_at)
"""


@contextmanager
def lean_table(environment: Environment) -> Iterator[Any]:
    """A connection to the smallest table that does it: an id, its end, and an index to purge by."""
    with driver("psycopg").connect(environment.url, autocommit=True) as connection:
        connection.execute(_LEAN)
        yield connection
