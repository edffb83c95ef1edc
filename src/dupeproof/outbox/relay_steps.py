"""The outbox where a decision is statements in a row, in one transaction: SQLite, MariaDB and MySQL."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from dupeproof.outbox import relay_statements
from dupeproof.outbox.messages import SHARDS, Message, message_of, shard_of
from dupeproof.outbox.reports import DeadMessage, Delivered, Failure, OutboxStatus
from dupeproof.sql import CallerConnection

R = TypeVar("R")
_WAITING, _FAILING = "dupeproof_outbox", "dupeproof_outbox_failing"
_DEAD, _SENT = "dupeproof_outbox_dead", "dupeproof_outbox_sent"
_NOTHING = relay_statements.Stuck([], [])
_HANDS_KEPT = 7 * 24 * 3_600_000
_LEFT_BEHIND = "a relay ended, or was too slow, with this message in its hands"


class Place(Protocol):
    """Where the tables are. `work` is given a connection and the time there, and may be called again."""

    def look(self, work: Callable[[CallerConnection, int], R]) -> R:
        """Read what is there, without any lock."""
        ...

    def decide(self, work: Callable[[CallerConnection, int], R]) -> R:
        """In a transaction that sees all that was committed before each statement."""
        ...

    def close(self) -> None: ...


class StepwiseSource:
    def __init__(self, place: Place) -> None:
        self._place = place

    def take(self, token: bytes, lease: int, shards: int, most: int) -> list[Message]:
        def free(adapted: CallerConnection, now: int) -> tuple[list[int], bool]:
            """Shards with something due; whoever finds none disturbs nobody. One with suspects comes alone."""
            rows = adapted.execute(relay_statements.FREE, {"now": now, "token": token})
            stuck = _stuck(adapted, now)
            suspects = {shard_of(shard) for (shard,) in adapted.execute(relay_statements.SUSPECTS)}
            found: list[int] = []
            for shard, left_behind in rows:
                alone = bool(left_behind) or shard in suspects
                if (alone and found) or (shard in stuck and not _due(adapted, shard, now, 1, stuck[shard])):
                    continue
                found.append(shard)
                if alone or len(found) == min(shards, most):
                    return sorted(found), alone
            return sorted(found), False

        def taken(adapted: CallerConnection, now: int) -> list[Message]:
            former = (
                adapted.execute(relay_statements.FORMER[adapted.dialect], {"shard": wanted[0]})
                if alone
                else []
            )
            adapted.execute(
                relay_statements.lease(wanted), {"token": token, "until": now + lease, "now": now}
            )
            mine = _owned(adapted, wanted, token)
            for (left_by,) in former if mine else ():
                if left_by is not None and left_by != token:
                    _suspect(adapted, wanted[0], left_by)
            stuck = _stuck(adapted, now)
            room = 1 if alone else max(1, most // max(1, len(mine)))
            messages = [
                message
                for shard in mine
                for message in _due(adapted, shard, now, room, stuck.get(shard, _NOTHING))
            ]
            if messages:
                seqs = ",".join(str(message.place[1]) for message in messages)
                adapted.count(relay_statements.TAKE_IN_HAND, {"token": token, "seqs": seqs, "now": now})
            else:
                adapted.count(relay_statements.GIVE_BACK, {"now": now, "token": token})
            return messages

        wanted, alone = self._place.look(free)
        if not wanted and self._place.look(lambda adapted, _: adapted.execute(relay_statements.NO_LANES)):
            self._place.decide(_make_shards)
            wanted, alone = self._place.look(free)
        return self._place.decide(taken) if wanted else []

    def record(self, delivered: Delivered) -> int:
        return self._place.decide(lambda adapted, now: _settled(adapted, now, delivered))

    def status(self) -> OutboxStatus:
        def status(adapted: CallerConnection, now: int) -> OutboxStatus:
            [row] = adapted.execute(relay_statements.STATUS, {"now": now, "ever": relay_statements.FOR_EVER})
            backlog, delayed, oldest, *counts, leased_until = row
            values = [backlog, delayed, None if oldest is None else float(oldest), *map(int, counts)]
            values.append(None if leased_until is None else max(0, now - int(leased_until)) / 1_000)
            return OutboxStatus(*values)

        return self._place.look(status)

    def dead(self, limit: int) -> list[DeadMessage]:
        rows = self._place.look(
            lambda adapted, now: adapted.execute(relay_statements.DEAD, {"now": now, "most": limit})
        )
        return [DeadMessage(*row) for row in rows]

    def retry(self, ids: Sequence[str] | None) -> list[str]:
        return self._place.decide(lambda adapted, _: _moved(adapted, ids, back=True))

    def drop(self, ids: Sequence[str] | None) -> list[str]:
        return self._place.decide(lambda adapted, _: _moved(adapted, ids, back=False))

    def purge(self, limit: int) -> int:
        def purged(adapted: CallerConnection, now: int) -> int:
            expired = [
                seq for (seq,) in adapted.execute(relay_statements.EXPIRED, {"now": now, "most": limit})
            ]
            return adapted.count(relay_statements.remove(_SENT, expired)) if expired else 0

        return self._place.decide(purged)

    def tidy(self) -> None:
        """Of hands that were left behind and that nobody will ask for."""
        self._place.decide(
            lambda adapted, now: adapted.count(relay_statements.FORGET_HANDS, {"before": now - _HANDS_KEPT})
        )

    def wake_socket(self) -> int | None:
        return None

    def woken(self) -> None:
        """Nobody wakes a relay here."""

    def close(self) -> None:
        self._place.close()


def _make_shards(adapted: CallerConnection, _: int) -> None:
    for shard in range(SHARDS):
        adapted.count(relay_statements.MAKE_SHARD[adapted.dialect], {"shard": shard})


def _owned(adapted: CallerConnection, shards: Sequence[int], token: bytes) -> list[int]:
    if not shards:
        return []
    return [
        shard
        for (shard,) in adapted.execute(relay_statements.owned(adapted.dialect, shards), {"token": token})
    ]


def _stuck(adapted: CallerConnection, now: int) -> dict[int, relay_statements.Stuck]:
    """By shard."""
    found: dict[int, relay_statements.Stuck] = {}
    for shard, seq, key in adapted.execute(relay_statements.STUCK, {"now": now}):
        stuck = found.setdefault(shard_of(shard), relay_statements.Stuck([], []))
        stuck.seqs.append(seq)
        if key is not None:
            stuck.keys.append(key)
    return found


def _due(
    adapted: CallerConnection, shard: int, now: int, most: int, stuck: relay_statements.Stuck
) -> list[Message]:
    """A statement of its own after the shard was taken, so that all that former owners did is seen."""
    parameters: dict[str, int | str] = {"now": now, "shard": shard, "most": most}
    parameters |= {f"key{number}": key for number, key in enumerate(stuck.keys)}
    rows = adapted.execute(relay_statements.due(adapted.dialect, stuck), parameters)
    return [message_of(row[2:]) for row in rows]


def _suspect(adapted: CallerConnection, shard: int, token: bytes) -> None:
    """What was in that hand comes alone from now on; and if it was alone then, that was an attempt."""
    for (text,) in adapted.execute(relay_statements.HAND, {"token": token}):
        seqs = [int(seq) for seq in text.split(",")]
        values = {
            "shard": shard,
            "attempts": 1 if len(seqs) == 1 else 0,
            "retry_at": relay_statements.AT_ONCE,
            "error": _LEFT_BEHIND,
        }
        adapted.count(relay_statements.suspect(adapted.dialect, seqs), values)


def _settled(adapted: CallerConnection, now: int, delivered: Delivered) -> int:
    removed = 0
    places = [*delivered.sent, *(failure.message.place for failure in delivered.failed)]
    owned = _owned(adapted, sorted({shard_of(shard) for shard, _ in places}), delivered.token)
    if delivered.sent:
        seqs = sorted(seq for _, seq in delivered.sent)
        if delivered.keep:
            adapted.execute(relay_statements.keep(seqs), {"now": now, "until": now + delivered.keep})
        removed = adapted.count(relay_statements.remove(_WAITING, seqs))
        adapted.count(relay_statements.remove(_FAILING, seqs))
        adapted.count(relay_statements.remove(_DEAD, seqs))  # dead by another who did not know
    for failure in delivered.failed:
        if shard_of(failure.message.place[0]) in owned:
            _failed(adapted, failure, now, key_waits=delivered.key_waits)
    counts = Counter(shard_of(shard) for shard, _ in delivered.sent)
    for shard, number in sorted(counts.items()):
        adapted.count(relay_statements.COUNT_SENT, {"shard": shard, "number": number})
    adapted.count(relay_statements.GIVE_BACK, {"now": now, "token": delivered.token})
    adapted.count(relay_statements.LET_GO, {"token": delivered.token})
    return removed


def _failed(adapted: CallerConnection, failure: Failure, now: int, *, key_waits: bool) -> None:
    seq = failure.message.place[1]
    values = {
        "seq": seq,
        "attempts": failure.attempts,
        "retry_at": now + failure.delay,
        "error": failure.error,
    }
    adapted.count(relay_statements.FAIL[adapted.dialect], values)
    if failure.dead:
        adapted.count(relay_statements.BURY, {"seq": seq, "now": now})
        adapted.count(relay_statements.remove(_WAITING, [seq]))
        if key_waits:
            adapted.count(relay_statements.KEY_WAITS, {"seq": seq, "retry_at": relay_statements.FOR_EVER})
            adapted.count(relay_statements.NO_KEY, {"seq": seq})
        else:
            adapted.count(relay_statements.remove(_FAILING, [seq]))


def _moved(adapted: CallerConnection, ids: Sequence[str] | None, *, back: bool) -> list[str]:
    """Out of the dead, to where they stood or away; the ids of those that were there."""
    all_of_them = relay_statements.dead(adapted.dialect, by_id=False)
    one_of_them = relay_statements.dead(adapted.dialect, by_id=True)
    found = (
        adapted.execute(all_of_them)
        if ids is None
        else [row for ident in ids for row in adapted.execute(one_of_them, {"id": ident})]
    )
    if found:
        seqs = [seq for seq, _ in found]
        if back:
            adapted.count(relay_statements.back(seqs))
        adapted.count(relay_statements.remove(_DEAD, seqs))
        adapted.count(relay_statements.remove(_FAILING, seqs))
    return [ident for _, ident in found]
