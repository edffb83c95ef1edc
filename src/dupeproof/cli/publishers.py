"""What `dupeproof relay --to` publishes to: a broker by its URL, or what the outbox itself knows."""

from importlib import import_module
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.outbox.targets import open_target

BROKERS = {
    "amqp": ("rabbitmq", "RabbitPublisher", "pika", "rabbitmq"),
    "amqps": ("rabbitmq", "RabbitPublisher", "pika", "rabbitmq"),
    "kafka": ("kafka", "KafkaPublisher", "confluent_kafka", "kafka"),
    "kafkas": ("kafka", "KafkaPublisher", "confluent_kafka", "kafka"),
    "redis": ("redis_streams", "RedisStreamPublisher", "redis", "redis"),
    "rediss": ("redis_streams", "RedisStreamPublisher", "redis", "redis"),
    "nats": ("nats", "NatsPublisher", "nats", "nats"),
    "tls": ("nats", "NatsPublisher", "nats", "nats"),
}
"""By scheme: the module, its publisher, the driver that is needed and the extra that brings it."""
EXTRAS = {driver: extra for *_, driver, extra in BROKERS.values()} | {
    "aio_pika": "rabbitmq",
    "psycopg": "postgres",
}
"""What brings a driver that is missing."""


def open_publisher(to: str) -> Any:
    """`amqp://…`, `kafka://host:9092`, `redis://…`, `nats://…`, with TLS `amqps`, `kafkas`, `rediss` and `tls`; `stdout:` or `python:module.function`."""
    scheme, separator, _ = to.partition("://")
    if not separator or scheme not in BROKERS:
        return open_target(to, beside=[f"{known}://…" for known in BROKERS])
    module, publisher, driver, extra = BROKERS[scheme]
    try:
        kind = getattr(import_module(f"dupeproof.brokers.{module}"), publisher)
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in (driver, "aio_pika"):
            raise
        raise ConfigError(
            f'{scheme}:// needs {driver}, which is not installed; run: pip install "dupeproof[{extra}]"'
        ) from exc
    return kind(to)
