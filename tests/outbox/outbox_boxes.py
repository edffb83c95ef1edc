"""A database with an outbox in it, and how to be connected to it."""

import contextlib

import psycopg
import pymysql
import sqlalchemy

from dupeproof import Outbox

TABLES = [f"dupeproof_outbox{part}" for part in ("", "_shards", "_failing", "_dead", "_sent")]


class Box:
    """A database with an outbox in it, and a connection of the application's."""

    def __init__(self, url, connect):
        self.url = url
        self.connect = connect
        self.connection = connect()
        self.outbox = Outbox()
        self.outbox.create_schema(self.connection)
        self.connection.commit()

    def add(self, *payloads, **options):
        options = {"topic": "orders", **options}
        ids = [self.outbox.add(self.connection, payload=each, **options) for each in payloads]
        self.connection.commit()
        return ids

    def all(self, statement):
        rows = self.execute(statement)
        self.connection.commit()
        return rows

    def execute(self, statement):
        """DB-API alone, which all of them have."""
        with contextlib.closing(self.connection.cursor()) as cursor:
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def empty(self):
        for table in TABLES:
            self.execute(f"DELETE FROM {table}")
        self.connection.commit()

    def waiting(self):
        return self.all("SELECT count(*) FROM dupeproof_outbox")[0][0]


def connect_to_mariadb(url):
    there = sqlalchemy.engine.make_url(url)
    return pymysql.connect(
        host=there.host,
        port=there.port,
        user=there.username,
        password=there.password or "",
        database=there.database,
        charset="utf8mb4",
    )


CONNECT = {"postgres": psycopg.connect, "mariadb": connect_to_mariadb}
