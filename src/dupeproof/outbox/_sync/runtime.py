# No twin: threads and system calls here, tasks and a loop in the async counterpart.
"""Joining the caller's connection, opening sources, and resting until there is something to do, for threads."""

import os
import select
import sqlite3
from collections.abc import Callable
from typing import Any

from dupeproof.outbox.joining import join
from dupeproof.outbox.messages import Message
from dupeproof.outbox.sources import Source, open_source
from dupeproof.stores.sqlite.connection import OUTBOX

__all__ = [
    "CREATE_SCHEMA",
    "IS_ASYNC",
    "OTHER_KIND",
    "OTHER_RELAY",
    "Rest",
    "Source",
    "call",
    "create_schema_on",
    "join",
    "open_source",
]
CREATE_SCHEMA = "outbox.create_schema(connection)"
IS_ASYNC = False
OTHER_KIND, OTHER_RELAY = "async", "AsyncRelay"


def call(function: Callable[[Message], object], message: Message) -> None:
    function(message)


def create_schema_on(connection: Any) -> None:
    if isinstance(join(connection).connection, sqlite3.Connection):
        for statement in OUTBOX.split(
            ";\n"
        ):  # not executescript, which would commit what the caller has begun
            connection.execute(statement)
        return
    from dupeproof.stores.postgres._sync.migrating import migrate  # noqa: PLC0415 - psycopg is an extra

    migrate(connection)


class Rest:
    """Between two looks: ended by time, by word from the database, or by the wish to stop.

    A pipe and not an event, so that both can be waited for at once, and so that a signal handler may ask to stop.
    """

    def __init__(self) -> None:
        self.stopping = False
        self._reading, self._writing = os.pipe()

    def stop(self) -> None:
        self.stopping = True
        os.write(self._writing, b"!")

    def wait(self, seconds: float, socket: int | None = None) -> None:
        watched = [self._reading] if socket is None else [self._reading, socket]
        select.select(watched, (), (), seconds)

    def __del__(self) -> None:
        # Not sooner: whoever asks to stop in the last moment must not write to a file that took its number.
        os.close(self._reading)
        os.close(self._writing)
