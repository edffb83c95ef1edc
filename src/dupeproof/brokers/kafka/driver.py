"""confluent-kafka: settings that matter, and what its errors mean."""

import logging
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dupeproof.brokers.base import dead_name
from dupeproof.brokers.errors import BrokerUnavailable, NotPublished
from dupeproof.errors import ConfigError, DupeproofError
from dupeproof.stores.tls import OPTIONS, answers_plainly, has_no_tls, needs_tls, speaks_tls, take_tls
from dupeproof.stores.urls import redact

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
    "AdminClient",
    "Config",
    "complaining",
    "connection",
    "create_dead_topic",
    "create_topic",
    "fatal_as_such",
    "kafka",
    "made",
    "meaning",
    "of_its_batch",
    "refusal",
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
_ANOTHER = kafka.KafkaError._INVALID_DIFFERENT_RECORD  # noqa: SLF001 - so it is called by its library
_NO_TOPIC = (
    kafka.KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    kafka.KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
)
_SETTINGS = (kafka.KafkaError._INVALID_ARG, kafka.KafkaError._CONFLICT)  # noqa: SLF001
_SSL = kafka.KafkaError._SSL  # noqa: SLF001
_UNREACHED = (
    _SSL,
    kafka.KafkaError._TRANSPORT,  # noqa: SLF001
    kafka.KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
)
_WHAT_DO_YOU_KNOW = struct.pack(">ihhih", 10, 18, 0, 7, -1)
"""A request that every broker answers: which others it knows."""
_NO_ACCESS = kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
_LOGIN = (
    kafka.KafkaError._AUTHENTICATION,  # noqa: SLF001
    kafka.KafkaError.SASL_AUTHENTICATION_FAILED,
    _NO_ACCESS,
    kafka.KafkaError.GROUP_AUTHORIZATION_FAILED,
    kafka.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


def connection(servers: str, config: Config | None = None) -> dict[str, Any]:
    """Settings by which clients reach the brokers: `host:port,host:port`, `kafka://…` or, with TLS, `kafkas://…`.

    `kafkas://user:password@host:9093?cafile=ca.pem&mechanism=SCRAM-SHA-512`. Settings in `config` win.
    """
    return {**_reached(servers), **(config or {})}


def _reached(servers: str) -> dict[str, Any]:
    scheme, separator, _ = str(servers or "").partition("://")
    if servers and not separator and "@" not in servers:
        return {"bootstrap.servers": servers}
    if scheme not in ("kafka", "kafkas"):
        raise ConfigError(
            "Kafka is found by host:port, or several with commas, or by kafka://host:port; with TLS by "
            "kafkas://user:password@host:port?cafile=…"
        )
    plain, tls = take_tls(servers, "kafkas")
    parts = urlsplit(plain)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    mechanism = options.pop("mechanism", "PLAIN")
    if options:
        known = ", ".join((*OPTIONS, "mechanism"))
        raise ConfigError(f"kafka addresses have no option {next(iter(options))!r:.40}; there are: {known}")
    userinfo, at, hosts = parts.netloc.rpartition("@")
    if not hosts:
        raise ConfigError(f"{redact(servers)!r} names no host; write {scheme}://host:port")
    user, _, password = userinfo.partition(":")
    found: dict[str, Any] = {"bootstrap.servers": hosts}
    if tls is not None:
        tls.context()  # what cannot be read is an error now
        files = {
            "ssl.ca.location": tls.cafile,
            "ssl.certificate.location": tls.certfile,
            "ssl.key.location": tls.keyfile,
        }
        found |= {name: value for name, value in files.items() if value}
        found["enable.ssl.certificate.verification"] = tls.verify
        found["ssl.endpoint.identification.algorithm"] = "https" if tls.verify else "none"
    if at:
        found |= {
            "sasl.mechanism": mechanism,
            "sasl.username": unquote(user),
            "sasl.password": unquote(password),
        }
    found["security.protocol"] = f"{'SASL_' * bool(at)}{'PLAINTEXT' if tls is None else 'SSL'}"
    return found


def meaning(error: Any, topic: str = "", config: Config | None = None) -> DupeproofError:
    """What an error means for one who cannot go on. With the settings, the brokers are asked whether they speak TLS."""
    code = error.code()
    if code in _NO_TOPIC:
        return ConfigError(f"there is no topic {topic!r}; create it first, or consume with create=True")
    if code == kafka.KafkaError.TOPIC_EXCEPTION:
        return ConfigError(f"Kafka can have no topic {topic[:40]!r}: {error.str()[:200]}")
    if code in _LOGIN:
        return ConfigError(
            f"Kafka refused access: {error.str()[:200]}; check user, password and permissions in config="
        )
    fault = _tls_fault(error, config or {})
    if fault is not None:
        return fault
    if code in _SETTINGS:
        return ConfigError(f"the settings in config= do not fit: {error.str()[:300]}")
    return BrokerUnavailable(f"Kafka cannot be reached, or does not answer: {error.str()[:200]}")


def _tls_fault(error: Any, config: Config) -> ConfigError | None:
    """The library reports a certificate; of a port that speaks TLS or not, it only guesses, so we look."""
    text = error.str()[:300]
    if error.code() == _SSL and "verif" in text:
        return ConfigError(
            f"the certificate of Kafka cannot be verified: {text}; name its authority with ?cafile=, and connect by a name "
            "that is in the certificate"
        )
    if error.code() == _SSL and "alert" in text:
        return ConfigError(f"Kafka refused our certificate: {text}; check certfile= and keyfile=")
    if error.code() not in _UNREACHED:
        return None
    is_tls = str(config.get("security.protocol", "")).upper().endswith("SSL")
    for place in str(config.get("bootstrap.servers", "")).split(","):
        host, _, port = place.strip().rpartition(":")
        if not host or not port.isdigit():
            continue
        if is_tls and answers_plainly(host.strip("[]"), int(port), _WHAT_DO_YOU_KNOW):
            return has_no_tls(f"kafkas://{host}:{port}", "kafka")
        if not is_tls and speaks_tls(host.strip("[]"), int(port)):
            return needs_tls(f"kafka://{host}:{port}", "kafkas")
    return None


def complaining(config: Config) -> Callable[[Any], None]:
    """For the library to call: most troubles it gets over by itself, a refused login is not one of those."""

    def complain(error: Any) -> None:
        found = meaning(error, config=config)
        if not isinstance(found, BrokerUnavailable):
            raise found

    return complain


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


def of_its_batch(answer: Any) -> bool:
    """Whether the broker refused a whole batch, for its size or for one message in it. Which one alone is refused too, it does
    not say: the library gives all of them the same error, or says of some that it was another one.
    """
    return isinstance(answer, kafka.KafkaError) and answer.code() in (*_UNFIT, _ANOTHER)


@contextmanager
def fatal_as_such() -> Iterator[None]:
    """The library raises a fatal error and calls back all the same; Python makes a SystemError of the two."""
    try:
        yield
    except SystemError as exc:
        if isinstance(exc.__cause__, kafka.KafkaException):
            raise exc.__cause__ from None
        raise


def made(kind: Callable[..., Any], config: Config, logger: Any = LOGGER) -> Any:
    """A client of the library; settings that it does not take are an error here."""
    try:
        return kind(dict(config), logger=logger)
    except kafka.KafkaException as exc:
        raise meaning(exc.args[0]) from exc
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"the settings in config= do not fit: {exc!s:.300}") from exc


def create_topic(config: Config, topic: str, settings: Mapping[str, str] = MappingProxyType({})) -> None:
    """With as many partitions as the broker thinks right; one that is there is left alone."""
    wanted = NewTopic(topic, -1, -1, config=dict(settings))
    admin = made(AdminClient, {"error_cb": complaining(config), **config})
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
    """For what is dead-lettered from a topic: of any size that came in, and with the reason on top."""
    create_topic(config, dead_name(topic), {"max.message.bytes": str(LARGEST)})
    return dead_name(topic)
