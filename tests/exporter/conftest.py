"""Stores in which something has gone wrong, and what is read of them."""

import sqlite3
from contextlib import closing

import pytest
from prometheus_client import CollectorRegistry

from dupeproof import Outbox
from dupeproof.exporter import StoreCollector
from dupeproof.stores.urls import redact


@pytest.fixture
def watch():
    """A function that makes a collector of these stores; what the registry says of one."""
    collectors = []

    def watching(*urls, **options):
        registry = CollectorRegistry()
        collectors.append(StoreCollector(*urls, registry=registry, **{"interval": "1ms"} | options))

        def value(name, **labels):
            return registry.get_sample_value(f"dupeproof_store_{name}", {"store": redact(urls[0])} | labels)

        value.registry = registry
        return value

    yield watching
    for collector in collectors:
        collector.close()


@pytest.fixture
def shop(tmp_path):
    """A database with an outbox, and a function that adds messages."""
    file = tmp_path / "shop.db"

    def add(number, **changes):
        with closing(sqlite3.connect(file)) as connection, connection:
            outbox = Outbox()
            outbox.create_schema(connection)
            outbox.add_many(connection, [{"topic": "t", "payload": each} for each in range(number)])
            for column, value in changes.items():
                connection.execute(f"UPDATE dupeproof_outbox SET {column} = ?", [value])

    return f"sqlite:///{file}", add
