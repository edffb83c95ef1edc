"""Values the guards hand to users: what an attempt gave, what a dead-letter hook gets, and what `get` shows of a key."""

from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from dupeproof.core.codecs import Codec, Unstorable, origin_of
from dupeproof.core.records import NOT_REPLAYABLE, Found, FoundMark, Listed, Record
from dupeproof.core.states import State
from dupeproof.errors import NotReplayable
from dupeproof.guards.steps import check_name, read_journal
from dupeproof.keys.ids import content_id

T = TypeVar("T")


class Result(Struct, Generic[T], frozen=True):
    """What `attempt` answers, and `attempt_many` for each item."""

    value: T
    replayed: bool
    attempt: int
    error: Exception | None = None
    """What `attempt_many` met instead of a value: the item's own error, or why its key could not be had."""


class DeadCall(Struct, frozen=True, kw_only=True):
    """What `on_dead` is given when a key has used up its attempts."""

    key: str
    namespace: str
    attempt: int
    error: Exception | None
    """What the last attempt raised; None when the last owner vanished."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it stands. `state` is "seen" when there is only a mark."""

    state: str
    namespace: str
    digest: str = ""
    """Of namespace and key, in hexadecimal digits. Logs show the first of them."""
    key: str | None = None
    """Only where the guard keeps keys (`keep_keys=True`)."""
    name: str = ""
    """Of the guarded function."""
    since: datetime | None = None
    """When it came into its state; None where the store does not know."""
    age: timedelta | None = None
    """How long it has been in its state, by the store's clock."""
    steps: dict[str, str] = {}
    """Of work that is not done: the name of each step, and whether it is "begun" or "done"."""
    meta: Any = None
    attempts: int = 0
    created_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    lease_left: float | None = None
    """Seconds, while running; below zero when abandoned or held."""
    error: str | None = None
    correctable: bool = False
    """It was resolved, and no caller has been given the result yet, so that it may be resolved again."""
    stored: bytes | None = None
    codec: str | None = None

    def child_key(self, name: str) -> str:
        """What `dupeproof.child_key` gives inside this call, for a lookup that asks by the key which the provider was sent."""
        return content_id(check_name(name), context=self.digest)

    @property
    def result(self) -> Any:
        """The stored value as JSON gives it; None unless the state is "done"."""
        if self.state != "done":
            return None
        if self.codec != "json":
            raise NotReplayable("the value was not stored as JSON, so it cannot be shown")
        assert self.stored is not None
        return msgspec.json.decode(origin_of(self.stored)[1])


def listed_entry(listed: Listed) -> Entry:
    return _entry(listed.key, listed.record, listed.now, None)


def make_entry(namespace: str, key: bytes, found: Found | None, mark: FoundMark | None) -> Entry | None:
    meta = msgspec.json.decode(mark.meta) if mark is not None and mark.meta else None
    if found is None:
        if mark is None:
            return None
        return Entry(
            state="seen",
            namespace=namespace,
            digest=key.hex(),
            meta=meta,
            expires_at=moment_of(mark.expires_at),
        )
    return _entry(key, found.record, found.now, meta)


def _entry(key: bytes, record: Record, now: int, meta: Any) -> Entry:
    state = record.reported(now)
    return Entry(
        state=state,
        namespace=record.namespace,
        digest=key.hex(),
        key=record.kept_key or None,
        name=record.name,
        since=moment_of(record.since(now)),
        age=timedelta(milliseconds=now - record.since(now)) if record.since(now) else None,
        steps={name: "done" if step.done else "begun" for name, step in read_journal(record).items()},
        meta=meta,
        attempts=record.attempt,
        created_at=moment_of(record.created_at),
        finished_at=moment_of(record.finished_at),
        expires_at=moment_of(record.expires_at),
        lease_left=(record.lease_until - now) / 1_000 if record.state == "running" else None,
        error=record.error or None,
        correctable=record.state is State.RESOLVED,
        stored=record.result if state == "done" else None,
        codec=record.codec or None,
    )


def replay(result: bytes, codec_name: str, codec: Codec, returns: Any) -> Any:
    """The value of an earlier run, typed; or the reason why there is none to give."""
    if codec_name == NOT_REPLAYABLE:
        raise NotReplayable("the work is done, but its value could not be stored; it is not run again")
    if codec_name != codec.name:
        raise NotReplayable(
            f"the value was stored with codec {codec_name!r}, this guard reads {codec.name!r}"
        )
    try:
        return codec.decode(result, returns)
    except Unstorable as exc:
        raise NotReplayable(
            f"the work is done, but {exc}; if the return annotation changed, forget the key or wait for its window"
        ) from exc


def moment_of(milliseconds: int) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC) if milliseconds else None
