# No twin: nats-py is for tasks only.
"""Messages into JetStream, each confirmed, with an id by which the server removes what is sent twice in a short time."""

import asyncio
from collections.abc import Sequence
from typing import Any

from dupeproof.brokers._async.publishing import AsyncBrokerPublisher
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.nats import wire
from dupeproof.brokers.nats._async.driver import check_url, connect, streams, theirs, translated
from dupeproof.brokers.waves import Result
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.outbox.messages import Message

_AT_ONCE = 500


class AsyncNatsPublisher(AsyncBrokerPublisher):
    """Publishes to the subject named as the topic, which a stream has to keep."""

    def __init__(self, url: str, *, timeout: Duration = "10s") -> None:
        self._url = check_url(url)
        self._seconds = milliseconds(timeout, name="timeout") / 1_000
        self._client: Any = None

    async def _open(self) -> None:
        with translated(self._url):
            self._client = await connect(self._url)
            self._streams = self._client.jetstream(timeout=self._seconds)

    async def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        results: list[Result] = []
        with translated(self._url):
            for start in range(0, len(messages), _AT_ONCE):
                results += await asyncio.gather(*map(self._publish, messages[start : start + _AT_ONCE]))
        return results

    async def _publish(self, message: Message) -> Result:
        try:
            await self._streams.publish(message.topic, message.payload, headers=wire.published(message))
        except NotPublished as exc:
            return exc
        except streams.NoStreamResponseError:
            text = f"no stream keeps the subject {message.topic!r}; add one first"
            return NotPublished(text, reason="unroutable")
        except (theirs.MaxPayloadError, theirs.BadSubjectError) as exc:
            return NotPublished(f"NATS cannot take a message for {message.topic!r}: {exc}", reason="unfit")
        except streams.ServiceUnavailableError:
            raise
        except TimeoutError:
            if not self._client.was_refused(message.topic):
                raise
            text = f"this user may not publish to the subject {message.topic!r}; give it the right"
            return NotPublished(text, reason="refused")
        except streams.APIError as exc:
            full = "maximum" in str(exc.description)
            text = f"the stream of {message.topic!r} refused a message: {exc.description}"
            return NotPublished(text, reason="full" if full else "refused")
        return None

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            await client.close()
