"""Where effects of the tests go: one row for each, so that what is lost is missing and what is doubled is there twice."""

import sqlite3
from collections import Counter

import psycopg

from dupeproof import AsyncInbox, Inbox

TABLE = "CREATE TABLE IF NOT EXISTS effects (number {serial}, message_id text, key text, body text)"


class PostgresLedger:
    def __init__(self, url: str) -> None:
        self.url = url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(TABLE.format(serial="bigserial"))
            Inbox("billing").create_schema(connection)

    def inbox(self, *, is_async: bool, group: str):
        return (AsyncInbox if is_async else Inbox)(group, database=self.url)

    def write(self, message, connection) -> None:
        connection.execute(
            "INSERT INTO effects (message_id, key, body) VALUES (%s, %s, %s)",
            [message.id, message.key, message.body.decode()],
        )

    async def write_async(self, message, connection) -> None:
        await connection.execute(
            "INSERT INTO effects (message_id, key, body) VALUES (%s, %s, %s)",
            [message.id, message.key, message.body.decode()],
        )

    def rows(self) -> list[tuple]:
        with psycopg.connect(self.url) as connection:
            return connection.execute("SELECT message_id, key, body FROM effects ORDER BY number").fetchall()

    def counts(self) -> Counter:
        return Counter(row[0] for row in self.rows())

    def empty(self) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute("TRUNCATE effects")


class SqliteLedger(PostgresLedger):
    def __init__(self, file) -> None:
        self.file = file
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(TABLE.format(serial="INTEGER PRIMARY KEY"))
            Inbox("billing").create_schema(connection)

    def inbox(self, *, is_async: bool, group: str):
        if is_async:
            from sqlalchemy.ext.asyncio import create_async_engine
            from sqlalchemy.pool import NullPool

            return AsyncInbox(
                group, database=create_async_engine(f"sqlite+aiosqlite:///{self.file}", poolclass=NullPool)
            )
        return Inbox(group, database=f"sqlite:///{self.file}")

    def write(self, message, connection) -> None:
        connection.execute(
            "INSERT INTO effects (message_id, key, body) VALUES (?, ?, ?)",
            [message.id, message.key, message.body.decode()],
        )

    async def write_async(self, message, connection) -> None:
        from sqlalchemy import text

        await connection.execute(
            text("INSERT INTO effects (message_id, key, body) VALUES (:id, :key, :body)"),
            {"id": message.id, "key": message.key, "body": message.body.decode()},
        )

    def rows(self) -> list[tuple]:
        with sqlite3.connect(self.file) as connection:
            return connection.execute("SELECT message_id, key, body FROM effects ORDER BY number").fetchall()

    def empty(self) -> None:
        with sqlite3.connect(self.file) as connection:
            connection.execute("DELETE FROM effects")
