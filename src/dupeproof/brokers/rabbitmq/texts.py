"""What RabbitMQ's refusals mean, in words that say what to do."""

import ssl
from urllib.parse import urlsplit

from dupeproof.brokers.errors import BrokerUnavailable, Full, HungUp, NotPublished
from dupeproof.errors import ConfigError, DupeproofError
from dupeproof.stores.tls import needs_tls, speaks_tls, take_tls
from dupeproof.stores.urls import redact

NEEDS = 'amqp:// needs {driver}, which is not installed; run: pip install "dupeproof[rabbitmq]"'
BLOCKED = "the broker takes no messages now, because its memory or disk is nearly full; see its alarms"
WAITING = (
    "RabbitMQ does not confirm retries and dead letters of %s now; see its alarms. %d wait and are acknowledged when it has "
    "them, the other messages are worked on"
)


def check_url(url: str) -> str:
    """Also its options of TLS, and the files they name."""
    if str(url).partition("://")[0] not in ("amqp", "amqps"):
        raise ConfigError(
            f"{redact(str(url))!r} is not an address of RabbitMQ; write amqp://user:password@host/"
        )
    address(url)
    return url


def address(url: str) -> tuple[str, ssl.SSLContext | None]:
    """For a driver: without our options, and what they say. Both drivers have their own, of other names."""
    plain, tls = take_tls(url, "amqps")
    return plain, None if tls is None else tls.context()


def tls_missing(url: str) -> ConfigError | None:
    """A broker that hangs up before a word was said may want TLS."""
    parts = urlsplit(url)
    if parts.scheme == "amqp" and speaks_tls(parts.hostname or "localhost", parts.port or 5672):
        return needs_tls(url, "amqps")
    return None


def unroutable(topic: str, exchange: str) -> NotPublished:
    where = (
        f"exchange {exchange!r} has no queue bound for {topic!r}"
        if exchange
        else f"there is no queue {topic!r}"
    )
    return NotPublished(f"{where}; declare and bind it first", reason="unroutable")


def refused(topic: str) -> Full:
    """The broker does so for its own sake only, never for what is in a message."""
    return Full(
        f"the broker refused a message for {topic!r}: a queue it goes to is full and rejects more (x-overflow), or the "
        "broker failed; its log tells"
    )


def not_taken() -> NotPublished:
    return NotPublished("the broker would not take a message back into a queue of ours", reason="refused")


def unconfirmed(seconds: float) -> BrokerUnavailable:
    return BrokerUnavailable(
        f"the broker confirmed nothing for {seconds:g} s; it may be blocked or overloaded"
    )


def login(url: str) -> ConfigError:
    return ConfigError(
        f"RabbitMQ refused user or password of {redact(url)}; check them, and that the user may log in"
    )


def no_access(url: str, why: str) -> ConfigError:
    return ConfigError(
        f"RabbitMQ refused access to {redact(url)}: {why}; check the virtual host and permissions"
    )


def unreachable(url: str) -> BrokerUnavailable:
    return BrokerUnavailable(f"RabbitMQ at {redact(url)} cannot be reached")


def gone(why: str) -> BrokerUnavailable:
    return BrokerUnavailable(f"RabbitMQ closed the connection: {why}")


def hung_up(why: str) -> HungUp:
    return HungUp(f"RabbitMQ closed the connection: {_shown(why)}")


def cancelled(queue: str) -> BrokerUnavailable:
    return BrokerUnavailable(f"the queue {queue!r} was deleted or moved while it was consumed from")


def is_stream(queue: str) -> ConfigError:
    return ConfigError(
        f"{queue!r} is a stream, which dupeproof cannot consume from: the broker does not keep how far a consumer of a stream "
        "is, so what was published before it came, or while it was away, would never be worked on; bind a quorum queue to "
        "the same exchange and consume from that"
    )


def channel_closed(code: int, text: str) -> DupeproofError:
    """The broker closes a channel to say no."""
    if code == 404:
        return ConfigError(f"{_shown(text)}; declare it first, or consume with create=True")
    if code == 403:
        return ConfigError(f"{_shown(text)}; the user needs a permission for it")
    if code == 406 and "timed out" in text:
        return BrokerUnavailable(
            "RabbitMQ took its messages back, because one of them was in work for longer than its consumer_timeout; "
            "they come again. Raise consumer_timeout in rabbitmq.conf above the longest run of your handler"
        )
    if code == 406 and "message size" in text:
        return NotPublished(f"{_shown(text)}; raise max_message_size in rabbitmq.conf", reason="unfit")
    if code in (405, 406):
        return ConfigError(f"{_shown(text)}; another consumer or declaration is in the way")
    return gone(_shown(text))


def _shown(text: str) -> str:
    return " ".join(text.split())[:300]
