# Written by tools/twins.py from src/dupeproof/inbox/inbox_async.py; change that file instead.
"""Inbox: the mark of a message, in the transaction that does its work."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from dupeproof import defaults
from dupeproof.core.crashes import armed, reached
from dupeproof.core.durations import Duration
from dupeproof.core.events import OF_INBOXES, Event, Listener, as_listeners, count_from_zero, publish
from dupeproof.core.lateness import Lateness, Tally, lateness_by_group
from dupeproof.errors import ConfigError
from dupeproof.inbox import entities, statements, windows
from dupeproof.inbox.arrivals import Arrival, kinds_of
from dupeproof.inbox.entities import KIND_OF, Recency, Version, ordered, recency_of
from dupeproof.inbox.insert_once import insertion
from dupeproof.inbox.windows import Window
from dupeproof.keys.names import Key, check_key, check_keys, check_namespace, key_digest
from dupeproof.sql import CallerConnection, Translated, adapt
from dupeproof.sql.database_option import no_database
from dupeproof.sql.databases import opened
from dupeproof.sql.faults import DUPLICATE_KEY, code_of, table_missing
from dupeproof.sql.statements import Dialect
from dupeproof.stores.purge import purge_inbox
from dupeproof.stores.tables import create_tables

_TRANSLATED = Translated(table_missing("dupeproof_inbox", "inbox"))
_ENTITIES = Translated(table_missing("dupeproof_entities", "inbox"))
_ATTEMPTS = Translated(table_missing("dupeproof_attempts", "inbox"))


class Inbox:
    """Finds duplicate messages inside your own transaction.

        with connection.transaction():
            if inbox.first(connection, message.id):
                connection.execute("UPDATE accounts SET …")

    The mark is committed with your work or not at all, so neither can be there without the other. A duplicate that
    comes while the first is under way waits until that commits (then it is one) or rolls back (then it is the first);
    the database's own lock timeout bounds the wait. `RetryTransaction` says that nothing is done: roll back, run again.

    `database` is needed only by those who call `transaction`: a URL, an engine, a session maker, a pool, or
    `"django:default"`.
    `window` is how long a message is remembered, from when it was first met: a duration, or a name out of `WINDOWS`.
    The database may say otherwise, see `change_window`; that is asked with the first message and then twice a minute.
    It must be longer than your longest transaction: a duplicate that has waited for one may find its mark expired.
    `events` receive `fresh`, `seen`, `late` and `stale` when you ask: what you roll back is emitted again. Leave that
    to a consumer where there is one. It emits only what was committed.
    Groups do not know of each other. One inbox is for one database: the window it has read there is used everywhere.
    """

    def __init__(
        self,
        group: str,
        window: Duration = defaults.WINDOW,
        database: Any = None,
        *,
        events: Iterable[Listener] = (),
    ) -> None:
        self._digest = key_digest(check_namespace(group))
        self._window = Window(window)
        self._opened = None if database is None else opened(database)
        self._listeners = as_listeners(events)
        self.group = group
        count_from_zero(self._listeners, OF_INBOXES, group)

    def transaction(self) -> AbstractContextManager[Any]:
        """A transaction on `database`, for consumers without a connection of their own: `with … as connection`.

        Connections to a URL are kept for the next transaction; `close` gives them up.
        """
        if self._opened is None:
            raise no_database()
        return _announced(self._opened())

    def close(self) -> None:
        """Give up the connections to a URL that are idle; an engine, a pool or an alias is closed by whoever opened it.

        An inbox that is used again opens them again, and one that is not closed keeps nothing from ending.
        """
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def first(self, connection: Any, message_id: Key) -> bool:
        """Whether the message is new; marks it if so, in one statement."""
        if self._listeners:
            return (self.arrivals(connection, [message_id]))[0] is not Arrival.AGAIN
        digest = self._digest(check_key(message_id))
        with _TRANSLATED:
            adapted = self._joined(connection)
            values = {
                "group": self.group,
                "window": self._window.milliseconds,
                **statements.keys(adapted.dialect, [digest]),
            }
            if adapted.dialect == "mysql":
                new = bool(_marked(adapted, [digest], values))
            else:
                new = adapted.count(statements.mark(adapted.dialect, 1), values) == 1
                if not new:
                    adapted.count(statements.came_again(adapted.dialect, 1), values)
        if armed and new:
            reached("after-mark")
        return new

    def first_many(self, connection: Any, message_ids: Iterable[Key]) -> list[bool]:
        """Whether each is new, in order, all in one statement; one that stands in the batch twice is new once."""
        return [each is not Arrival.AGAIN for each in self.arrivals(connection, message_ids)]

    def arrivals(self, connection: Any, message_ids: Iterable[Key]) -> list[Arrival]:
        """As `first_many`, and of the new ones which were known before their window was over."""
        digests = [self._digest(text) for text in check_keys(message_ids)]
        if not digests:
            return []
        if len(digests) > statements.MOST_IDS:
            raise ConfigError(f"give at most {statements.MOST_IDS:,} ids at a time; got {len(digests):,}")
        with _TRANSLATED:
            adapted = self._joined(connection)
            # Sorted, so that two batches cannot wait for each other in a circle.
            wanted = sorted(set(digests))
            new = _marked(adapted, wanted, self._values(adapted, wanted, statements.to_mark))
            known = [digest for digest in wanted if digest not in new]
            if known and adapted.dialect != "mysql":  # these rows are locked by now
                again = statements.came_again(adapted.dialect, len(known))
                adapted.count(again, self._values(adapted, known))
        if armed and new:
            reached("after-mark")
        # Taken out when it is answered, so the second of a batch came again.
        answers = [new.pop(digest, Arrival.AGAIN) for digest in digests]
        for kind, count in kinds_of(answers).items():
            publish(self._listeners, Event(kind=kind, namespace=self.group, count=count))
        return answers

    def newer(self, connection: Any, *, entity: Key, version: Version, id: Key) -> Recency:  # noqa: A002 - of a message
        """Whether nothing newer has come for this entity; takes the version if so, in one statement.

            if inbox.newer(connection, entity=event.subscription, version=event.created, id=event.id):
                connection.execute("UPDATE subscriptions SET …")

        The answer has `.first`, `.stale` and `.duplicate`, and is true where it is the first. For messages that say what their
        entity is now, of which an older one must not overwrite a newer one. There is one row for an entity of this group, and
        none for a message. Another transaction with the same entity waits for the end of this one.

        `version` is an int, an aware datetime or a str (compared by code points), and of one type for an entity. Of messages
        with the same version the one with the greater digest of its `id` wins, in whatever order they come. An entity is forgotten
        when its version has not changed for the window, and whatever comes then is the first: the window must be longer than
        any message can be late.
        """
        identity = self._digest(check_key(id))
        kind, place = ordered(version)
        digest = self._digest(check_key(entity))
        with _ENTITIES:
            adapted = self._joined(connection)
            values = {
                "window": self._window.milliseconds,
                **entities.values(adapted.dialect, digest, kind, place + identity),
            }
            if adapted.dialect == "mysql":
                adapted.count(entities.NEWER["mysql"], values)
                [(answer, before)] = adapted.execute(entities.ANSWER, {"entity": values["entity"]})
            else:
                [(answer, before)] = adapted.execute(entities.NEWER[adapted.dialect], values)
        found = recency_of(answer, before, kind)
        if armed and found.first:
            reached("after-mark")
        publish(self._listeners, Event(kind=KIND_OF[found], namespace=self.group))
        return found

    def forget_entity(self, connection: Any, entity: Key) -> None:
        """Forget which version an entity has got, in your transaction: whatever comes next is the first."""
        digest = self._digest(check_key(entity))
        with _ENTITIES:
            adapted = adapt(connection)
            adapted.check_transaction()
            values = {"entity": digest if adapted.dialect == "sqlite" else digest.hex()}
            adapted.count(entities.FORGET[adapted.dialect], values)

    def confirm(self, connection: Any, message_ids: Iterable[Key]) -> None:
        """Look, before the commit, that what was marked in this transaction still is: ConfigError if not.

        For those who let others work in their transaction, as consumers do with handlers. A handler that has rolled back, or
        passed over an error that spoilt the transaction, would be committed as if it had done its work.
        """
        wanted = {self._digest(text) for text in check_keys(message_ids)}
        with _TRANSLATED:
            adapted = adapt(connection)
            statement = statements.count(adapted.dialect, len(wanted)) if wanted else "SELECT 0"
            [(found,)] = adapted.execute(statement, self._values(adapted, sorted(wanted)) if wanted else {})
        if found != len(wanted):
            raise ConfigError(
                "the transaction was rolled back while the message was worked on; leave its end to whoever began it"
            )

    def unmark(self, connection: Any, message_ids: Iterable[Key]) -> None:
        """Take back what was marked in this transaction, where a savepoint undid the work and not the mark."""
        digests = sorted({self._digest(text) for text in check_keys(message_ids)})
        with _TRANSLATED:
            adapted = adapt(connection)
            if digests:
                values = statements.keys(adapted.dialect, digests)
                adapted.count(statements.unmark(adapted.dialect, len(digests)), values)

    def begin_attempt(self, connection: Any, message_id: Key) -> int:
        """Count an attempt at a message, and say how many were begun and not ended. Commit before the work begins.

        For consumers, so that a message that kills them each time can be dead-lettered where the broker does not count. A row
        is written; so only for messages that came before.
        """
        with _ATTEMPTS:
            adapted = adapt(connection)
            adapted.check_transaction()
            values = statements.keys(adapted.dialect, [self._digest(check_key(message_id))])
            rows = adapted.execute(statements.BEGIN[adapted.dialect], values)
            if adapted.dialect == "mysql":
                rows = adapted.execute(statements.BEGUN, values)
        return int(rows[0][0])

    def end_attempts(self, connection: Any, message_ids: Iterable[Key]) -> None:
        """The work is done, in this transaction."""
        digests = sorted({self._digest(text) for text in check_keys(message_ids)})
        with _ATTEMPTS:
            adapted = adapt(connection)
            if digests:
                values = statements.keys(adapted.dialect, digests)
                adapted.count(statements.end(adapted.dialect, len(digests)), values)

    def insert_once(
        self, connection: Any, table: str, values: Mapping[str, Any], *, key: str | Sequence[str]
    ) -> bool:
        """Insert a row of your own unless one with the same key is there; True when it was inserted.

            if inbox.insert_once(connection, "payments", {"order_id": 7, "amount": 500}, key="order_id"): ...

        `key` names the columns of a unique constraint. Any other error, of another constraint too, is raised as it is.
        """
        wanted = insertion(table, values, key)
        with Translated():  # a missing table is not one of ours
            adapted = adapt(connection)
            adapted.check_transaction()
            if adapted.dialect == "mysql":
                return _inserted_in_mysql(adapted, wanted)
            return bool(adapted.execute(wanted.statement(adapted.dialect), wanted.parameters))

    def create_schema(self, connection: Any) -> None:
        """Make the tables; making them twice is fine. MariaDB and MySQL commit your transaction for it."""
        with _TRANSLATED:
            create_tables(adapt(connection), "inbox")

    def window(self, connection: Any) -> timedelta:
        """How long messages of this group are remembered now."""
        with _TRANSLATED:
            self._look(adapt(connection))
        return timedelta(milliseconds=self._window.milliseconds)

    def change_window(self, connection: Any, window: Duration | None) -> None:
        """Another window for all inboxes of this group, within a minute of your commit; None for what their code says.

        It holds for what is marked from then on. A duration, or a name out of `WINDOWS`.
        """
        with _TRANSLATED:
            adapted = adapt(connection)
            if window is None:
                adapted.execute(windows.REMOVE, {"group": self.group})
            else:
                values = {"group": self.group, "window": windows.window_milliseconds(window)}
                adapted.execute(windows.WRITE[adapted.dialect], values)

    def lateness(self, connection: Any) -> Lateness:
        """How long after the first one duplicates of this group came, how many of them too late, and the window that suggests.

        A message that came again is counted by the last time it did, for a window must outlast that.
        """
        with _TRANSLATED:
            adapted = adapt(connection)
            rows = adapted.execute(statements.LATENESS_OF_GROUP, {"group": self.group})
        return lateness_by_group(map(Tally.of, rows)).get(self.group, Lateness())

    def purge(self, connection: Any, limit: int = 1_000) -> int:
        """Remove at most `limit` expired marks, of any group, in your transaction; how many went.

        `dupeproof purge` and `Purger` do it in transactions of their own, beside everything else. Commit soon: other purges
        may wait for what this one adds to the figures of `lateness`.
        """
        with _TRANSLATED:
            adapted = adapt(connection)
            adapted.check_transaction()
            return purge_inbox(adapted, limit)

    def _joined(self, connection: Any) -> CallerConnection:
        adapted = adapt(connection)
        adapted.check_transaction()
        if self._window.is_due:
            if adapted.dialect in windows.LOCK:
                adapted.execute(windows.LOCK[adapted.dialect])
            self._look(adapted)
        return adapted

    def _values(
        self,
        adapted: CallerConnection,
        digests: Sequence[bytes],
        given_as: Callable[[Dialect, Sequence[bytes]], Mapping[str, Any]] = statements.keys,
    ) -> dict[str, Any]:
        return {
            "group": self.group,
            "window": self._window.milliseconds,
            **given_as(adapted.dialect, digests),
        }

    def _look(self, adapted: CallerConnection) -> None:
        rows = adapted.execute(windows.READ, {"group": self.group})
        self._window.found(rows[0][0] if rows else None)


@contextmanager
def _announced(transaction: AbstractContextManager[Any]) -> Iterator[Any]:
    with transaction as connection:
        yield connection
        reached("before-commit")
    reached("after-commit")


def _marked(
    adapted: CallerConnection, digests: Sequence[bytes], values: dict[str, Any]
) -> dict[bytes, Arrival]:
    """Those of them that are new, or late and so taken for new."""
    if adapted.dialect == "mysql":
        values["token"] = secrets.token_hex(8)
        affected = adapted.count(statements.mark("mysql", len(digests)), values)
        if affected == len(digests):
            return dict.fromkeys(digests, Arrival.FIRST)
        rows = adapted.execute(statements.marked(len(digests)), values)
    else:
        statement = statements.mark(adapted.dialect, len(digests), returning=True)
        rows = adapted.execute(statement, values)
    return {
        bytes.fromhex(key.replace("-", "")): Arrival.LATE if late else Arrival.FIRST for key, late in rows
    }


def _inserted_in_mysql(adapted: CallerConnection, wanted: Any) -> bool:
    try:
        adapted.execute(wanted.statement("mysql"), wanted.parameters)
    except Exception as exc:
        # Of the statement nothing is left, and the transaction goes on. It may have been another constraint.
        if code_of(exc) not in DUPLICATE_KEY or not adapted.execute(
            wanted.same_key("mysql"), wanted.parameters
        ):
            raise
        return False
    return True
