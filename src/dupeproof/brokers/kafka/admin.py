"""What is asked of the cluster beside messages: which topic has a name now, and who is in a group."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.brokers.kafka.driver import CONNECT_SECONDS, LOGGER, AdminClient, Config, kafka, made, meaning

_EVERY = 10.0
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Of a broker that gives its topics none, which is one before Kafka 2.8."""


class TopicIds:
    """Kafka gives a topic that is made anew under its old name another id. Belongs to one thread."""

    def __init__(self, connection: Config) -> None:
        self._connection = connection
        self._admin: Any = None
        self._known: dict[str, str] = {}
        self._asked: Mapping[str, Any] = {}
        self._asked_at = 0.0

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """Asked now; empty for what the broker cannot say."""
        answers = self._ask(topics)
        self._known.update({topic: _id_in(answer, CONNECT_SECONDS) for topic, answer in answers.items()})
        self._asked_at = time.monotonic()
        return {topic: self._known[topic] for topic in answers}

    def changed(self, topics: Iterable[str]) -> str | None:
        """A topic that was made anew since it was asked for. Waits for nobody: the question is asked now and then, and the answer
        read when it is there.
        """
        if self._asked:
            if not all(answer.done() for answer in self._asked.values()):
                return None
            answers, self._asked = self._asked, {}
            for topic, answer in answers.items():
                known = self._known.get(topic)
                found = "" if answer.exception() is not None else _id_in(answer, 0)
                if known and found and known != found:
                    return topic
        elif self._known and time.monotonic() - self._asked_at > _EVERY:
            self._asked_at = time.monotonic()
            self._asked = self._ask(topics)
        return None

    def _ask(self, topics: Iterable[str]) -> Mapping[str, Any]:
        names = sorted(set(topics))
        if not names:
            return {}
        if self._admin is None:
            self._admin = made(AdminClient, self._connection)
        answers: Mapping[str, Any] = self._admin.describe_topics(
            kafka.TopicCollection(names), request_timeout=CONNECT_SECONDS
        )
        return answers

    def close(self) -> None:
        self._admin = None
        self._known, self._asked = {}, {}


def _id_in(answer: Any, seconds: float) -> str:
    try:
        found = str(answer.result(seconds + 1).topic_id)
    except TimeoutError:
        raise BrokerUnavailable("Kafka does not say which topic it has") from None
    except kafka.KafkaException as exc:
        if isinstance(meaning(exc.args[0]), BrokerUnavailable) and exc.args[0].code() != _UNSUPPORTED:
            raise meaning(exc.args[0]) from exc
        return ""  # the consumer itself is told what is wrong with the topic
    return "" if found == _NO_ID else found


_UNSUPPORTED = kafka.KafkaError._UNSUPPORTED_FEATURE  # noqa: SLF001 - so it is called by its library


def has_member(connection: Config, group: str, is_it: Callable[[str, str], bool]) -> bool:
    """Whether a member of the group is one, by its client id and its member id. No where nobody answers."""
    admin = made(AdminClient, connection)
    try:
        answers = admin.describe_consumer_groups([group], request_timeout=CONNECT_SECONDS)
        members = answers[group].result(CONNECT_SECONDS + 1).members
    except (kafka.KafkaException, TimeoutError) as exc:
        LOGGER.warning("Kafka did not say who is in the group %s: %s", group, exc)
        return False
    return any(is_it(each.client_id, each.member_id) for each in members)
