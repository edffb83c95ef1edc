"""confluent-kafka: settings that matter, and what its errors mean."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from dupeproof.brokers.base import dead_name
from dupeproof.brokers.errors import BrokerUnavailable, NotPublished
from dupeproof.errors import ConfigError, DupeproofError

try:
    import confluent_kafka as kafka
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic
except ModuleNotFoundError as exc:
    raise ConfigError(
        'Kafka needs confluent-kafka, which is not installed; run: pip install "dupeproof[kafka]"'
    ) from exc

__all__ = [
    "CONNECT_SECONDS",
    "LARGEST",
    "LOGGER",
    "TIMEOUT",
    "Config",
    "check_servers",
    "complain",
    "create_dead_topic",
    "create_topic",
    "fatal_as_such",
    "kafka",
    "made",
    "meaning",
    "refusal",
    "too_large",
]
Config = Mapping[str, Any]
"""Settings of librdkafka, which win over ours: `{"security.protocol": "SASL_SSL", …}`."""
TIMEOUT = 10.0
LARGEST = 1_000_000_000
"""Bytes: what librdkafka takes at most for a message."""
CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 0.05
LOGGER = logging.getLogger("dupeproof.kafka")
_UNFIT = (kafka.KafkaError.MSG_SIZE_TOO_LARGE, kafka.KafkaError.INVALID_MSG, kafka.KafkaError.INVALID_RECORD)
_NO_TOPIC = (
    kafka.KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - so it is called by its library
    kafka.KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
)
_SETTINGS = (kafka.KafkaError._INVALID_ARG, kafka.KafkaError._CONFLICT)  # noqa: SLF001
_NO_ACCESS = kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
_LOGIN = (
    kafka.KafkaError._AUTHENTICATION,  # noqa: SLF001
    kafka.KafkaError.SASL_AUTHENTICATION_FAILED,
    _NO_ACCESS,
    kafka.KafkaError.GROUP_AUTHORIZATION_FAILED,
    kafka.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


def check_servers(servers: str) -> str:
    if not servers or "://" in servers or "@" in servers:
        raise ConfigError(
            "Kafka is found by host:port, or several with commas; user and password go into config="
        )
    return servers


def meaning(error: Any, topic: str = "") -> DupeproofError:
    """What an error means for one who cannot go on."""
    code = error.code()
    if code in _NO_TOPIC:
        return ConfigError(f"there is no topic {topic!r}; create it first, or consume with create=True")
    if code == kafka.KafkaError.TOPIC_EXCEPTION:
        return ConfigError(f"Kafka can have no topic {topic[:40]!r}: {error.str()[:200]}")
    if code in _LOGIN:
        return ConfigError(
            f"Kafka refused access: {error.str()[:200]}; check user, password and permissions in config="
        )
    if code in _SETTINGS:
        return ConfigError(f"the settings in config= do not fit: {error.str()[:300]}")
    return BrokerUnavailable(f"Kafka cannot be reached, or does not answer: {error.str()[:200]}")


def complain(error: Any) -> None:
    """For the library to call: most troubles it gets over by itself, a refused login is not one of those."""
    found = meaning(error)
    if not isinstance(found, BrokerUnavailable):
        raise found


def refusal(error: Any, topic: str) -> NotPublished | None:
    """What is wrong with one message; None when the message is not to blame."""
    code = error.code()
    if code in _NO_TOPIC:
        return NotPublished(f"there is no topic {topic!r}; create it first", reason="unroutable")
    if code in _UNFIT:
        return NotPublished(f"Kafka cannot take a message for {topic!r}: {error.str()[:200]}", reason="unfit")
    if code == _NO_ACCESS:
        return NotPublished(
            f"this user may not write to the topic {topic!r}; give it the right", reason="refused"
        )
    return None


def too_large(answer: Any) -> bool:
    """Whether the broker refused a batch for its size. It does not say whether one message alone would be as large."""
    return isinstance(answer, kafka.KafkaError) and answer.code() == kafka.KafkaError.MSG_SIZE_TOO_LARGE


@contextmanager
def fatal_as_such() -> Iterator[None]:
    """The library raises a fatal error and calls back all the same; Python makes a SystemError of the two."""
    try:
        yield
    except SystemError as exc:
        if isinstance(exc.__cause__, kafka.KafkaException):
            raise exc.__cause__ from None
        raise


def made(kind: Callable[..., Any], config: Config) -> Any:
    """A client of the library; settings that it does not take are told here."""
    try:
        return kind(dict(config), logger=LOGGER)
    except kafka.KafkaException as exc:
        raise meaning(exc.args[0]) from exc
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"the settings in config= do not fit: {exc!s:.300}") from exc


def create_topic(config: Config, topic: str, settings: Mapping[str, str] = MappingProxyType({})) -> None:
    """With as many partitions as the broker thinks right; one that is there is left alone."""
    wanted = NewTopic(topic, -1, -1, config=dict(settings))
    admin = made(AdminClient, {"error_cb": complain, **config})
    future = admin.create_topics([wanted], request_timeout=CONNECT_SECONDS)[topic]
    give_up = time.monotonic() + CONNECT_SECONDS
    while not future.done() and time.monotonic() < give_up:
        admin.poll(_LOOK_SECONDS)
    try:
        future.result(0)
    except TimeoutError:
        raise BrokerUnavailable("Kafka cannot be reached, or does not answer") from None
    except kafka.KafkaException as exc:
        if exc.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise meaning(exc.args[0], topic) from exc


def create_dead_topic(config: Config, topic: str) -> str:
    """For what is put aside from a topic: of any size that came in, and with the reason on top."""
    create_topic(config, dead_name(topic), {"max.message.bytes": str(LARGEST)})
    return dead_name(topic)
