"""Orders are taken, billed once, and forgotten: outbox, relay, broker, inbox and cleanup.

    python examples/order_flow.py rabbitmq        # or kafka, redis_streams, nats
    python examples/order_flow.py rabbitmq --url amqp://localhost/ --database postgresql:///shop

The first starts servers of its own, with dupeproof-lab. The second uses yours, and makes its tables there.

Every message is published twice, as happens when a confirmation is lost. Each order is billed once all the same.
"""

import argparse
import sys
import threading
import time
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from dupeproof import Inbox, Outbox, Relay
from dupeproof.brokers.base import Message
from dupeproof.cleanup import Purger

TOPIC = "orders"
TABLES = """
    CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, customer text, amount int);
    CREATE TABLE IF NOT EXISTS balances (customer text PRIMARY KEY, owed int NOT NULL);
"""
PUBLISHERS = {
    "rabbitmq": "RabbitPublisher",
    "kafka": "KafkaPublisher",
    "redis_streams": "RedisStreamPublisher",
    "nats": "NatsPublisher",
}
SERVERS = {"rabbitmq": "RabbitMQ", "kafka": "Kafka", "redis_streams": "Redis", "nats": "Nats"}
"""As dupeproof-lab calls them."""
outbox = Outbox()


def take_order(connection: psycopg.Connection, number: int) -> None:
    """The order service: the order and the message that tells of it, in one transaction."""
    order = {"id": f"o-{number}", "customer": f"c-{number % 3}", "amount": 10 + number}
    with connection.transaction():
        connection.execute("INSERT INTO orders VALUES (%(id)s, %(customer)s, %(amount)s)", order)
        outbox.add(connection, topic=TOPIC, payload=order, key=order["customer"])


def bill(message: Message, connection: psycopg.Connection) -> None:
    """The billing service: called in the transaction that marks the message as seen."""
    order = message.json()
    connection.execute(
        "INSERT INTO balances VALUES (%(customer)s, %(amount)s) "
        "ON CONFLICT (customer) DO UPDATE SET owed = balances.owed + excluded.owed",
        order,
    )


class Twice:
    """Publishes everything twice, for the sake of the example."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher

    def publish(self, messages: Any) -> Any:
        self._publisher.publish(messages)
        return self._publisher.publish(messages)


def run(broker: str, url: str, database: str, orders: int = 30) -> dict[str, Any]:
    """The whole flow; what is owed, what was ordered, and what was removed in the end."""
    module = import_module(f"dupeproof.brokers.{broker}")
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(database, autocommit=True))
        connection.execute(TABLES)
        pool = stack.enter_context(ConnectionPool(database, min_size=1, max_size=4, open=True))
        inbox = Inbox("billing", window="3s", database=pool)
        inbox.create_schema(connection)  # on PostgreSQL, that is all tables of dupeproof

        consumer = module.consumer(url, TOPIC, bill, inbox=inbox, create=True)
        billing = threading.Thread(target=consumer.run)
        billing.start()
        stack.callback(billing.join)
        stack.callback(consumer.stop)

        publisher = stack.enter_context(getattr(module, PUBLISHERS[broker])(url))
        relay = Relay(database, publisher=Twice(publisher), poll="100ms", backoff="100ms")
        relaying = threading.Thread(target=relay.run)
        relaying.start()
        stack.callback(relaying.join)
        stack.callback(relay.stop)

        for number in range(orders):
            take_order(connection, number)
        while consumer.tally.done < orders:
            time.sleep(0.05)
        time.sleep(3.2)  # the window of this example is over
        removed = Purger(database).run_once().removed
        [ordered] = connection.execute("SELECT sum(amount) FROM orders").fetchone() or [0]
        [owed] = connection.execute("SELECT sum(owed) FROM balances").fetchone() or [0]
        return {"ordered": ordered, "owed": owed, "removed": removed, "tally": consumer.tally}


def main(broker: str, url: str | None, database: str | None) -> None:
    with ExitStack() as stack:
        if url is None or database is None:
            try:
                servers = import_module("dupeproof_lab.servers")
            except ModuleNotFoundError:
                sys.exit("give --url and --database, or: pip install dupeproof-lab, which starts servers")
            url = url or stack.enter_context(getattr(servers, SERVERS[broker])()).url
            database = database or stack.enter_context(servers.Postgres()).url
        for name, value in run(broker, url, database).items():
            print(f"{name:8} {value}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("broker", nargs="?", default="rabbitmq", choices=SERVERS)
    parser.add_argument("--url", help="of the broker; without it, one is started")
    parser.add_argument("--database", help="a URL of PostgreSQL; without it, one is started")
    arguments = parser.parse_args()
    main(arguments.broker, arguments.url, arguments.database)
