# Written by tools/twins.py from src/dupeproof/outbox/outbox_async.py; change that file instead.
"""Outbox: messages written in the transaction of the work they announce, so that both happen or neither."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dupeproof import defaults
from dupeproof.core.durations import Duration
from dupeproof.errors import ConfigError
from dupeproof.keys.names import Key
from dupeproof.outbox.insert_statements import additions
from dupeproof.outbox.messages import Added, Ids, Intake, Row
from dupeproof.sql import Translated, adapt
from dupeproof.sql.faults import table_missing
from dupeproof.stores.tables import create_tables

_TABLE = "dupeproof_outbox"
_MISSING = table_missing(_TABLE, "outbox")
_TRANSLATED = Translated(_MISSING)


class Outbox:
    """Where messages wait, in your own database, for a relay to publish them.

    `add` takes the connection your transaction is open on. The message goes out if, and only if, you commit. Its id is
    made once, here; every delivery carries it, so consumers can recognise a duplicate.

    `ids` says where ids come from that are not given: "new", or "content", by which the same content for the same topic
    and key has the same id. With `notify`, PostgreSQL wakes idle relays at the commit. Its notifications make commits
    wait for each other: where many transactions a second write messages, `notify=False` and a short poll serve better.
    """

    def __init__(
        self,
        *,
        ids: Ids = "new",
        max_payload: int = defaults.MAX_PAYLOAD,
        max_headers: int = defaults.MAX_HEADERS,
        notify: bool = True,
    ) -> None:
        self._intake = Intake(ids=ids, max_payload=max_payload, max_headers=max_headers)
        self._notify = notify
        self._has_looked = False

    def add(
        self,
        connection: Any,
        *,
        topic: str,
        payload: Any,
        key: Key | None = None,
        headers: Mapping[str, str] | None = None,
        type: str = "",  # noqa: A002 - the name of the column
        id: str | None = None,  # noqa: A002 - of the message
        delay: Duration | None = None,
        not_before: datetime | None = None,
    ) -> str:
        """Write one message in the transaction open on the connection; its id.

        `payload` is bytes, or anything that has a JSON form. Messages with the same `key` are published in the order they
        were added; one with a `delay` takes its place when its time has come, and holds back nobody until then.
        """
        message = Added(
            topic=topic,
            payload=payload,
            key=key,
            headers=headers,
            type=type,
            id=id,
            delay=delay,
            not_before=not_before,
        )
        row = self._intake.row(message)
        self._write(connection, [row])
        return row[1]

    def add_many(self, connection: Any, messages: Iterable[Added | Mapping[str, Any]]) -> list[str]:
        """Write many in one statement; their ids. A message is an `Added`, or a dict of the arguments of `add`."""
        rows = [self._intake.row(each if isinstance(each, Added) else _added(each)) for each in messages]
        self._write(connection, rows)
        return [row[1] for row in rows]

    def create_schema(self, connection: Any) -> None:
        """Make the tables on a connection of your own; making them twice is fine.

        A relay makes them by itself. MariaDB and MySQL commit your transaction for it.
        """
        with _TRANSLATED:
            create_tables(adapt(connection), "outbox")

    def _write(self, connection: Any, rows: Sequence[Row]) -> None:
        with _TRANSLATED:
            adapted = adapt(connection)
            adapted.check_transaction("the message would go out")
            if not self._has_looked and adapted.would_fail_without(_TABLE):
                raise ConfigError(_MISSING)
            self._has_looked = True
            for statement, parameters in additions(adapted.dialect, rows, notify=self._notify):
                adapted.execute(statement, parameters)


def _added(fields: Mapping[str, Any]) -> Added:
    try:
        return Added(**fields)
    except TypeError as exc:
        raise ConfigError(f"a message of add_many takes the arguments of add: {exc}") from None
