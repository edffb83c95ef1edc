"""What a relay can be told to publish to, by name."""

import pytest

from dupeproof import ConfigError
from dupeproof.brokers.kafka import KafkaPublisher
from dupeproof.brokers.nats import NatsPublisher
from dupeproof.brokers.rabbitmq import RabbitPublisher
from dupeproof.brokers.redis_streams import RedisStreamPublisher
from dupeproof.cli.publishers import open_publisher


@pytest.mark.parametrize(
    ("to", "kind"),
    [
        ("amqp://guest:guest@localhost/", RabbitPublisher),
        ("kafka://localhost:9092", KafkaPublisher),
        ("redis://localhost:6379/0", RedisStreamPublisher),
        ("nats://localhost:4222", NatsPublisher),
    ],
)
def test_brokers_are_named_by_their_urls(to, kind):
    assert isinstance(open_publisher(to), kind)


def test_what_is_no_target_is_told_without_its_password():
    with pytest.raises(ConfigError) as caught:
        open_publisher("smtp://me:hunter2@host")
    assert "hunter2" not in str(caught.value)
