"""Publish many at a time, and yet no message after one with its key that failed. Pure."""

from collections.abc import Iterator, Sequence

from dupeproof.errors import DupeproofError
from dupeproof.outbox.failures import HeldBack
from dupeproof.outbox.messages import Message

Result = BaseException | None


class Unanswered(Exception):
    """In place of a result: the connection was lost before the broker has confirmed the message. `cause` says how."""

    def __init__(self, cause: DupeproofError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Waves:
    """A wave holds at most one message of each key and of each id; the next one only what may follow the last one's results.

    Of each id, because drivers tell by it which message a broker has returned.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._left = list(enumerate(messages))
        self._results: list[Result] = [HeldBack() for _ in messages]
        self._wave: dict[str, tuple[int, Message]] = {}
        self._answered = 0
        self._stuck: set[str] = set()

    def __iter__(self) -> Iterator[list[Message]]:
        while self._left:
            seen: set[str] = set()
            ids: set[str] = set()
            wave, later = [], []
            for place, message in self._left:
                if message.key in self._stuck:
                    continue
                if message.id in ids or (message.key is not None and message.key in seen):
                    later.append((place, message))
                else:
                    wave.append((place, message))
                    ids.add(message.id)
                if message.key is not None:
                    seen.add(message.key)
            self._wave, self._left = {pair[1].id: pair for pair in wave}, later
            if wave:
                yield [message for _, message in wave]

    def answer(self, message: Message, result: Result) -> None:
        """What became of one of the last wave."""
        place, _ = self._wave[message.id]
        self._results[place] = result
        self._answered += 1
        if result is not None and message.key is not None:
            self._stuck.add(message.key)

    @property
    def is_begun(self) -> bool:
        """Whether anything is known of any."""
        return self._answered > 0

    @property
    def results(self) -> list[Result]:
        """For each message None, an error, or that it was held back."""
        return self._results
