"""The outbox where a decision is statements in a row, in one transaction: SQLite, MariaDB and MySQL."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from dupeproof.outbox import steps
from dupeproof.outbox.messages import LANES, Message, lane_of, message_of
from dupeproof.outbox.reports import DeadMessage, Failure, OutboxStatus, Settlement
from dupeproof.sql import Joined

R = TypeVar("R")
_WAITING, _FAILING = "dupeproof_outbox", "dupeproof_outbox_failing"
_DEAD, _SENT = "dupeproof_outbox_dead", "dupeproof_outbox_sent"
_NOTHING = steps.Stuck([], [])
_HANDS_KEPT = 7 * 24 * 3_600_000
_LEFT_BEHIND = "a relay ended, or was too slow, with this message in its hands"


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
        def free(joined: Joined, now: int) -> tuple[list[int], bool]:
            """Lanes with something due; whoever finds none disturbs nobody. One with suspects comes alone."""
            rows = joined.execute(steps.FREE, {"now": now, "token": token})
            stuck = _stuck(joined, now)
            suspects = {lane_of(lane) for (lane,) in joined.execute(steps.SUSPECTS)}
            found: list[int] = []
            for lane, left_behind in rows:
                alone = bool(left_behind) or lane in suspects
                if (alone and found) or (lane in stuck and not _due(joined, lane, now, 1, stuck[lane])):
                    continue
                found.append(lane)
                if alone or len(found) == min(lanes, most):
                    return sorted(found), alone
            return sorted(found), False

        def taken(joined: Joined, now: int) -> list[Message]:
            former = joined.execute(steps.FORMER[joined.dialect], {"lane": wanted[0]}) if alone else []
            joined.execute(steps.lease(wanted), {"token": token, "until": now + lease, "now": now})
            mine = _owned(joined, wanted, token)
            for (left_by,) in former if mine else ():
                if left_by is not None and left_by != token:
                    _suspect(joined, wanted[0], left_by)
            stuck = _stuck(joined, now)
            room = 1 if alone else max(1, most // max(1, len(mine)))
            messages = [
                message
                for lane in mine
                for message in _due(joined, lane, now, room, stuck.get(lane, _NOTHING))
            ]
            if messages:
                seqs = ",".join(str(message.place[1]) for message in messages)
                joined.count(steps.TAKE_IN_HAND, {"token": token, "seqs": seqs, "now": now})
            else:
                joined.count(steps.GIVE_BACK, {"now": now, "token": token})
            return messages

        wanted, alone = self._place.look(free)
        if not wanted and self._place.look(lambda joined, _: joined.execute(steps.NO_LANES)):
            self._place.decide(_make_lanes)
            wanted, alone = self._place.look(free)
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

    def tidy(self) -> None:
        """Of hands that were left behind and that nobody will ask for."""
        self._place.decide(
            lambda joined, now: joined.count(steps.FORGET_HANDS, {"before": now - _HANDS_KEPT})
        )

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


def _stuck(joined: Joined, now: int) -> dict[int, steps.Stuck]:
    """By lane."""
    found: dict[int, steps.Stuck] = {}
    for lane, seq, key in joined.execute(steps.STUCK, {"now": now}):
        stuck = found.setdefault(lane_of(lane), steps.Stuck([], []))
        stuck.seqs.append(seq)
        if key is not None:
            stuck.keys.append(key)
    return found


def _due(joined: Joined, lane: int, now: int, most: int, stuck: steps.Stuck) -> list[Message]:
    """A statement of its own after the lane was taken, so that all that former owners did is seen."""
    parameters: dict[str, int | str] = {"now": now, "lane": lane, "most": most}
    parameters |= {f"key{number}": key for number, key in enumerate(stuck.keys)}
    rows = joined.execute(steps.due(joined.dialect, stuck), parameters)
    return [message_of(row[2:]) for row in rows]


def _suspect(joined: Joined, lane: int, token: bytes) -> None:
    """What was in that hand comes alone from now on; and if it was alone then, that was an attempt."""
    for (text,) in joined.execute(steps.HAND, {"token": token}):
        seqs = [int(seq) for seq in text.split(",")]
        values = {
            "lane": lane,
            "attempts": 1 if len(seqs) == 1 else 0,
            "retry_at": steps.AT_ONCE,
            "error": _LEFT_BEHIND,
        }
        joined.count(steps.suspect(joined.dialect, seqs), values)


def _settled(joined: Joined, now: int, settlement: Settlement) -> int:
    removed = 0
    places = [*settlement.sent, *(failure.message.place for failure in settlement.failed)]
    owned = _owned(joined, sorted({lane_of(lane) for lane, _ in places}), settlement.token)
    if settlement.sent:
        seqs = sorted(seq for _, seq in settlement.sent)
        if settlement.keep:
            joined.execute(steps.keep(seqs), {"now": now, "until": now + settlement.keep})
        removed = joined.count(steps.remove(_WAITING, seqs))
        joined.count(steps.remove(_FAILING, seqs))
        joined.count(steps.remove(_DEAD, seqs))  # buried by another who did not know
    for failure in settlement.failed:
        if lane_of(failure.message.place[0]) in owned:
            _failed(joined, failure, now, key_waits=settlement.key_waits)
    counts = Counter(lane_of(lane) for lane, _ in settlement.sent)
    for lane, number in sorted(counts.items()):
        joined.count(steps.COUNT_SENT, {"lane": lane, "number": number})
    joined.count(steps.GIVE_BACK, {"now": now, "token": settlement.token})
    joined.count(steps.LET_GO, {"token": settlement.token})
    return removed


def _failed(joined: Joined, failure: Failure, now: int, *, key_waits: bool) -> None:
    seq = failure.message.place[1]
    values = {
        "seq": seq,
        "attempts": failure.attempts,
        "retry_at": now + failure.delay,
        "error": failure.error,
    }
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
    all_of_them = steps.dead(joined.dialect, by_id=False)
    one_of_them = steps.dead(joined.dialect, by_id=True)
    found = (
        joined.execute(all_of_them)
        if ids is None
        else [row for ident in ids for row in joined.execute(one_of_them, {"id": ident})]
    )
    if found:
        seqs = [seq for seq, _ in found]
        if back:
            joined.count(steps.back(seqs))
        joined.count(steps.remove(_DEAD, seqs))
        joined.count(steps.remove(_FAILING, seqs))
    return [ident for _, ident in found]
