"""The outbox where a decision is statements in a row, in one transaction: SQLite, MariaDB and MySQL."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from dupeproof.outbox import steps
from dupeproof.outbox.messages import LANES, Message, message_of
from dupeproof.outbox.reports import DeadMessage, Failure, OutboxStatus, Settlement
from dupeproof.sql import Joined

R = TypeVar("R")
_WAITING, _FAILING = "dupeproof_outbox", "dupeproof_outbox_failing"
_DEAD, _SENT = "dupeproof_outbox_dead", "dupeproof_outbox_sent"


class Place(Protocol):
    """Where the tables are. `work` is given a connection and the time there, and may be called again."""

    def look(self, work: Callable[[Joined, int], R]) -> R:
        """Read what is there, without any lock."""
        ...

    def decide(self, work: Callable[[Joined, int], R]) -> R:
        """In a transaction that sees all that was committed before each statement."""
        ...

    def close(self) -> None: ...


class StepwiseSource:
    def __init__(self, place: Place) -> None:
        self._place = place

    def take(self, token: bytes, lease: int, lanes: int, most: int) -> list[Message]:
        def free(joined: Joined, now: int) -> list[int]:
            rows = joined.execute(steps.FREE, {"now": now, "token": token, "lanes": lanes})
            return sorted(lane for (lane,) in rows)

        def taken(joined: Joined, now: int) -> list[Message]:
            joined.execute(steps.lease(wanted), {"token": token, "until": now + lease, "now": now})
            mine = _owned(joined, wanted, token)
            return [message for lane in mine for message in _due(joined, lane, now, most // len(mine))]

        wanted = self._place.look(free)  # whoever finds nothing to do disturbs nobody
        if not wanted and self._place.look(lambda joined, _: joined.execute(steps.NO_LANES)):
            self._place.decide(_make_lanes)
            wanted = self._place.look(free)
        return self._place.decide(taken) if wanted else []

    def settle(self, settlement: Settlement) -> int:
        return self._place.decide(lambda joined, now: _settled(joined, now, settlement))

    def status(self) -> OutboxStatus:
        [row] = self._place.look(
            lambda joined, now: joined.execute(steps.STATUS, {"now": now, "ever": steps.FOR_EVER})
        )
        backlog, delayed, oldest, *counts = row
        return OutboxStatus(backlog, delayed, None if oldest is None else float(oldest), *map(int, counts))

    def dead(self, limit: int) -> list[DeadMessage]:
        rows = self._place.look(lambda joined, now: joined.execute(steps.DEAD, {"now": now, "most": limit}))
        return [DeadMessage(*row) for row in rows]

    def retry(self, ids: Sequence[str] | None) -> list[str]:
        return self._place.decide(lambda joined, _: _moved(joined, ids, back=True))

    def drop(self, ids: Sequence[str] | None) -> list[str]:
        return self._place.decide(lambda joined, _: _moved(joined, ids, back=False))

    def purge(self, limit: int) -> int:
        def purged(joined: Joined, now: int) -> int:
            expired = [seq for (seq,) in joined.execute(steps.EXPIRED, {"now": now, "most": limit})]
            return joined.count(steps.remove(_SENT, expired)) if expired else 0

        return self._place.decide(purged)

    def wake_socket(self) -> int | None:
        return None

    def woken(self) -> None:
        """Nobody wakes a relay here."""

    def close(self) -> None:
        self._place.close()


def _make_lanes(joined: Joined, _: int) -> None:
    for lane in range(LANES):
        joined.count(steps.MAKE_LANE[joined.dialect], {"lane": lane})


def _owned(joined: Joined, lanes: Sequence[int], token: bytes) -> list[int]:
    if not lanes:
        return []
    return [lane for (lane,) in joined.execute(steps.owned(joined.dialect, lanes), {"token": token})]


def _due(joined: Joined, lane: int, now: int, most: int) -> list[Message]:
    """A statement of its own after the lane was taken, so that all that former owners did is seen."""
    found: list[Message] = []
    for read in steps.READ:
        room = max(1, most) - len(found)
        found += map(message_of, joined.execute(read, {"now": now, "lane": lane, "most": room}))
    return found


def _settled(joined: Joined, now: int, settlement: Settlement) -> int:
    removed = 0
    places = [*settlement.sent, *(failure.message.place for failure in settlement.failed)]
    owned = _owned(joined, sorted({_lane(lane) for lane, _ in places}), settlement.token)
    if settlement.sent:
        seqs = sorted(seq for _, seq in settlement.sent)
        if settlement.keep:
            joined.execute(steps.keep(seqs), {"now": now, "until": now + settlement.keep})
        removed = joined.count(steps.remove(_WAITING, seqs))
        joined.count(steps.remove(_FAILING, seqs))
    for failure in settlement.failed:
        if _lane(failure.message.place[0]) in owned:
            _failed(joined, failure, now, key_waits=settlement.key_waits)
    counts = Counter(_lane(lane) for lane, _ in settlement.sent)
    for lane, number in sorted(counts.items()):
        joined.count(steps.COUNT_SENT, {"lane": lane, "number": number})
    joined.count(steps.GIVE_BACK, {"now": now, "token": settlement.token})
    return removed


def _lane(kept_in: int) -> int:
    """Delayed messages are kept in the negative of their lane."""
    return max(kept_in, -1 - kept_in)


def _failed(joined: Joined, failure: Failure, now: int, *, key_waits: bool) -> None:
    seq = failure.message.place[1]
    values = {"seq": seq, "retry_at": now + failure.delay, "error": failure.error}
    joined.count(steps.FAIL[joined.dialect], values)
    if failure.buried:
        joined.count(steps.BURY, {"seq": seq, "now": now})
        joined.count(steps.remove(_WAITING, [seq]))
        if key_waits:
            joined.count(steps.KEY_WAITS, {"seq": seq, "retry_at": steps.FOR_EVER})
            joined.count(steps.NO_KEY, {"seq": seq})
        else:
            joined.count(steps.remove(_FAILING, [seq]))


def _moved(joined: Joined, ids: Sequence[str] | None, *, back: bool) -> list[str]:
    """Out of the dead, to where they stood or away; the ids of those that were there."""
    found = (
        joined.execute(steps.ALL_DEAD)
        if ids is None
        else [row for ident in ids for row in joined.execute(steps.DEAD_BY_ID, {"id": ident})]
    )
    if found:
        seqs = [seq for seq, _ in found]
        if back:
            joined.count(steps.back(seqs))
        joined.count(steps.remove(_DEAD, seqs))
        joined.count(steps.remove(_FAILING, seqs))
    return [ident for _, ident in found]
