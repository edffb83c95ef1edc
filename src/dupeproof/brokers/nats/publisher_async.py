# No twin: nats-py is for tasks only.
"""Messages into JetStream, each confirmed, with an id by which the server removes what is sent twice in a short time."""

import asyncio
from collections.abc import Sequence
from typing import Any

from dupeproof import defaults
from dupeproof.brokers.errors import BrokerUnavailable, HungUp, NotPublished
from dupeproof.brokers.nats import wire
from dupeproof.brokers.nats.driver_async import (
    check_url,
    connect,
    leave,
    refusal,
    streams,
    theirs,
    translated,
)
from dupeproof.brokers.publisher_async import AsyncBrokerPublisher
from dupeproof.brokers.waves import Result, Unanswered
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.outbox.messages import Message

_AT_ONCE = 500


class AsyncNatsPublisher(AsyncBrokerPublisher):
    """Publishes to the subject named as the topic, which a stream has to keep."""

    def __init__(self, url: str, *, timeout: Duration = defaults.NATS_PUBLISH_TIMEOUT) -> None:
        self._url = check_url(url)
        self._seconds = milliseconds(timeout, name="timeout") / 1_000
        self._client: Any = None

    async def _open(self) -> None:
        with translated(self._url):
            self._client = await connect(self._url)
            self._streams = self._client.jetstream(timeout=self._seconds)

    async def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        results: list[Result] = []
        for start in range(0, len(messages), _AT_ONCE):
            results += await self._send_some(messages[start : start + _AT_ONCE])
        return results

    async def _send_some(self, messages: Sequence[Message]) -> Sequence[Result]:
        """What the server has not confirmed when it hangs up, it will not: the driver would wait all the same."""
        tasks = [asyncio.create_task(self._publish(message)) for message in messages]
        over = asyncio.create_task(self._client.over.wait())
        try:
            sent = asyncio.ensure_future(asyncio.wait(tasks))
            await asyncio.wait([sent, over], return_when=asyncio.FIRST_COMPLETED)
            return [self._result(task) for task in tasks]
        finally:
            for task in (*tasks, sent, over):
                task.cancel()

    def _result(self, task: asyncio.Task[Result]) -> Result:
        if task.done() and not task.cancelled():
            try:
                with translated(self._url):
                    return task.result()
            except BrokerUnavailable as exc:
                if self._client.is_connected:
                    return Unanswered(exc)
        why = str(self._client.last_error or "without a word").removeprefix("nats: ")[:200]
        return Unanswered(HungUp(f"NATS closed the connection: {why}"))

    async def _publish(self, message: Message) -> Result:
        try:
            headers = wire.published(message)
        except NotPublished as exc:
            return exc
        return await confirmed(self._client, self._streams, message.topic, message.payload, headers)

    def _unfit(self, message: Message, /) -> NotPublished | None:
        return wire.unfit(message, self._client.max_payload)

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            await leave(client)


async def confirmed(
    client: Any, jetstream: Any, subject: str, payload: bytes, headers: dict[str, str]
) -> NotPublished | None:
    """None when a stream has it for sure."""
    try:
        await jetstream.publish(subject, payload, headers=headers)
    except streams.NoStreamResponseError:
        text = f"no stream keeps the subject {subject!r}; add one first"
        return NotPublished(text, reason="unroutable")
    except (theirs.MaxPayloadError, theirs.BadSubjectError) as exc:
        return NotPublished(f"NATS cannot take a message for {subject!r}: {exc}", reason="unfit")
    except TimeoutError:
        if not client.was_refused(subject):
            raise
        text = f"this user may not publish to the subject {subject!r}; give it the right"
        return NotPublished(text, reason="refused")
    except streams.APIError as exc:
        refused = refusal(exc, subject)
        if refused is None:
            raise
        return refused
    return None
