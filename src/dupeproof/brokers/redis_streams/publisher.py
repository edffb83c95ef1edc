# Written by tools/twins.py from src/dupeproof/brokers/redis_streams/publisher_async.py; change that file instead.
"""Messages into Redis Streams."""

from collections.abc import Sequence
from typing import Any

from dupeproof.brokers.errors import Full, HungUp, NotPublished
from dupeproof.brokers.publisher import BrokerPublisher
from dupeproof.brokers.redis_streams import wire
from dupeproof.brokers.redis_streams.connections import connected, disconnect
from dupeproof.brokers.redis_streams.driver import FULL, check_url, is_full, theirs, translated
from dupeproof.brokers.waves import Result, Unanswered
from dupeproof.outbox.messages import Message


class RedisStreamPublisher(BrokerPublisher):
    """Adds to the stream named as the topic. With `create=False` one that is not there is an error of that message.

    `maxlen` keeps streams to about that many entries; one that is trimmed before it is done is lost, and reported by the
    consumer that misses it.
    """

    def __init__(self, url: str, *, create: bool = True, maxlen: int | None = None) -> None:
        self._url = check_url(url)
        self._create = create
        self._maxlen = maxlen
        self._client: Any = None

    def _open(self) -> None:
        with translated(self._url, opening=True):
            self._client = connected(self._url)
            self._client.ping()

    def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        with translated(self._url):
            with self._client.pipeline(transaction=False) as pipe:
                for message in messages:
                    fields: Any = wire.published(message)
                    pipe.xadd(message.topic, fields, maxlen=self._maxlen, nomkstream=not self._create)
                try:
                    answers = pipe.execute(raise_on_error=False)
                except theirs.TimeoutError:
                    raise
                except theirs.ConnectionError as exc:
                    text = f"Redis closed the connection: {str(exc)[:200]}"
                    return [Unanswered(HungUp(text)) for _ in messages]
            return [_result(message, answer) for message, answer in zip(messages, answers, strict=True)]

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            disconnect(client)


def _result(message: Message, answer: Any) -> Result:
    if answer is None:
        return NotPublished(
            f"there is no stream {message.topic!r}; make it, or publish with create=True", reason="unroutable"
        )
    if isinstance(answer, theirs.ConnectionError | theirs.TimeoutError | theirs.BusyLoadingError):
        raise answer
    if isinstance(answer, theirs.ResponseError):
        if is_full(answer):
            return Full(f"{FULL}; topic {message.topic!r}")
        return NotPublished(
            f"Redis refused it: {str(answer)[:200]}; topic {message.topic!r}", reason="refused"
        )
    return None
