"""The producer: adds messages to the outbox, in transactions of the database under torture, never far ahead of the next fault."""

import json
import threading
import time

from dupeproof.errors import ConfigError
from dupeproof.outbox import Added, Outbox
from dupeproof.sql import adapt
from dupeproof.sql.databases import opened
from dupeproof_lab.torture.faults import Course

_BATCH = 100
_TURN_SECONDS = 0.02
_PATIENCE_SECONDS = 180.0
_WAITING = "SELECT count(*) FROM dupeproof_outbox"


class Producer:
    def __init__(self, course: Course, database: str, topic: str) -> None:
        self._course = course
        self._topic = topic
        self._opened = opened(database)
        self._outbox = Outbox()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ending = False
        self.allowed = 0
        """How many it may have added by now."""
        self.added = 0
        self.trouble: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending = True
        if self._thread.is_alive():
            self._thread.join(30)

    @property
    def is_done(self) -> bool:
        return self.added == len(self._course.messages)

    @property
    def distinct(self) -> int:
        """How many messages were added, those that were added twice counted once. Their ids are numbers in a row."""
        return int(self._course.messages[self.added - 1][2:]) + 1 if self.added else 0

    def waiting(self) -> int:
        """Messages that the relay has not published, or has not recorded as published."""
        with self._opened() as connection:
            [(count,)] = adapt(connection).execute(_WAITING)
        return int(count)

    def _run(self) -> None:
        messages = self._course.messages
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while not self.is_done and not self._ending:
            until = min(self.allowed, len(messages), self.added + _BATCH)
            if until <= self.added:
                give_up = time.monotonic() + _PATIENCE_SECONDS
                time.sleep(_TURN_SECONDS)
                continue
            try:
                with self._opened() as connection:
                    self._outbox.add_many(connection, map(self._message, messages[self.added : until]))
            except Exception as exc:  # noqa: BLE001 - whatever it is called when a database is being restarted
                # What was committed all the same is added again, and comes twice.
                if time.monotonic() > give_up or isinstance(exc, ConfigError):
                    self.trouble = exc
                    return
                time.sleep(_TURN_SECONDS)
            else:
                self.added = until
                give_up = time.monotonic() + _PATIENCE_SECONDS

    def _message(self, ident: str) -> Added:
        key = self._course.keys[ident]
        payload = json.dumps({"id": ident, "key": key}).encode()
        return Added(
            topic=self._topic, payload=payload, key=key, id=ident, headers=self._course.headers(ident)
        )
