"""What goes wrong, and when: chosen by a seed, so that a run can be had again. Pure."""

import random
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct

FIRST, LAST = 0.02, 0.8
"""Of the messages: faults happen while there is work before and after them."""
DOUBLED = 0.05
"""Of the messages are published twice, as a producer does that got no confirm."""
FAILING, SLOW = 0.01, 0.002
"""Of the messages fail at their first attempts, or take their time."""
_FEWEST_FAILING, _FEWEST_SLOW = 6, 3
KEYS = 50
OVERTAKING, UNNAMED = "f-", "u-"
"""Begin the keys of messages that may fail where others overtake them then, and of messages without an id."""
FAILS, SLEEPS = "torture-fails", "torture-seconds"
"""Headers of a message whose handler is to fail, so often, or to be slow, for so long."""
DOUBLE = "torture-double"
"""Header of a message that the producer sends twice."""
COPY = "torture-copy"
"""Header of a message without an id: another one each time that it is published, for each copy has an effect of its own."""
_SHARE_OF_SPECIAL_KEYS = 5
_KILLS_PER_FREEZE, _KILLS_PER_TAKEOVER, _KILLS_PER_RELAY, _KILLS_PER_RESTART = 10, 25, 5, 25
_SHORTEST_FREEZE, _LONGEST_FREEZE = 0.3, 3.0
_SHORTEST_SLOW, _LONGEST_SLOW = 0.1, 0.5


class Fault(StrEnum):
    KILL = "kill -9 of a consumer"
    FREEZE = "freeze of a consumer"
    OUTLIVE = "freeze of a consumer past its session"
    KILL_RELAY = "kill -9 of the relay"
    RESTART_BROKER = "kill and restart of the broker"
    RESTART_DATABASE = "kill and restart of the database"


class Point(StrEnum):
    """Where a process is stopped for a moment, so that a fault strikes there. All but the first and the last are crash points."""

    HANDLER = "handler"
    AFTER_MARK = "after-mark"
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    CONFIRMED = "after-publish-before-mark"
    HALF_PUBLISHED = "half-published"


WHAT = TRANSACTION, DELIVERY, PUBLISH, TAKEOVER = (
    "a transaction under way",
    "a delivery in hand",
    "a publish not recorded",
    "a delivery that another consumer took over",
)
"""What a fault can strike."""
_IN_TRANSACTION = (Point.HANDLER, Point.BEFORE_COMMIT, Point.AFTER_MARK)
_OF_CONSUMER = (Point.HANDLER, Point.AFTER_COMMIT, Point.BEFORE_COMMIT, Point.AFTER_MARK)
_OF_INBOX = {Point.AFTER_MARK, Point.BEFORE_COMMIT, Point.AFTER_COMMIT}
AIMS: dict[Fault, tuple[Point, ...]] = {
    Fault.KILL: _OF_CONSUMER,
    Fault.FREEZE: _OF_CONSUMER,
    Fault.OUTLIVE: (Point.HANDLER,),
    Fault.KILL_RELAY: (Point.HALF_PUBLISHED, Point.CONFIRMED),
    Fault.RESTART_BROKER: (Point.HANDLER, Point.HALF_PUBLISHED, Point.AFTER_COMMIT),
    Fault.RESTART_DATABASE: _IN_TRANSACTION,
}
"""At which points a fault is aimed, one after the other."""
_AIMS_UNGUARDED = {
    fault: (Point.HALF_PUBLISHED,)
    if fault is Fault.RESTART_DATABASE
    else tuple(point for point in points if point not in _OF_INBOX)
    for fault, points in AIMS.items()
}
"""The same where there is a handler and no inbox: of the database nobody has need but the relay."""


class Planned(Struct, frozen=True, order=True):
    at: float
    """When so much of all messages has had its effect."""
    fault: Fault
    aim: Point
    seconds: float
    """For how long, of a freeze; a moment before it, of others."""


class Course(Struct, frozen=True):
    """Everything that chance decides."""

    messages: list[str]
    """Ids in the order they are added, the doubled ones twice."""
    keys: dict[str, str]
    failing: dict[str, int]
    """Ids of messages whose first attempts fail, and how many of them."""
    slow: dict[str, float]
    """Ids of messages whose handler takes so many seconds."""
    doubled: set[str]
    faults: list[Planned]

    def headers(self, ident: str) -> dict[str, str]:
        """What tells a consumer to fail, and to be slow."""
        double = "yes" if ident in self.doubled else None
        told = {FAILS: self.failing.get(ident), SLEEPS: self.slow.get(ident), DOUBLE: double}
        return {name: str(value) for name, value in told.items() if value is not None}


def course(
    seed: int,
    *,
    messages: int,
    kills: int,
    servers: bool,
    overtaking: bool = False,
    unnamed: bool = False,
    sessions: bool = False,
    guarded: bool = True,
) -> Course:
    """`overtaking`: a message that fails loses its place, so only keys without a promised order have such messages.

    `unnamed`: some keys have messages without ids. `sessions`: a consumer that says nothing for long loses its messages.
    `guarded`: a consumer has transactions of ours; else there is a handler only.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    ids = [f"m-{number:07d}" for number in range(messages)]
    published: list[str] = []
    for ident in ids:
        published.append(ident)
        if chance.random() < DOUBLED:
            published.append(ident)
    names = [_key(number, overtaking=overtaking, unnamed=unnamed) for number in range(KEYS)]
    keys = {ident: chance.choice(names) for ident in ids}
    may_fail = [ident for ident in ids if not overtaking or keys[ident].startswith(OVERTAKING)]
    failing = {ident: chance.randint(1, 2) for ident in _some(chance, may_fail, FAILING, _FEWEST_FAILING)}
    slow = {
        ident: round(chance.uniform(_SHORTEST_SLOW, _LONGEST_SLOW), 3)
        for ident in _some(chance, ids, SLOW, _FEWEST_SLOW)
    }
    wanted = {
        Fault.KILL: kills,
        Fault.FREEZE: max(1, kills // _KILLS_PER_FREEZE),
        Fault.KILL_RELAY: max(1, kills // _KILLS_PER_RELAY),
        Fault.OUTLIVE: max(1, kills // _KILLS_PER_TAKEOVER) if sessions else 0,
    }
    if servers:  # drawn last: all else is the same without them
        restarts = max(1, kills // _KILLS_PER_RESTART)
        wanted |= {Fault.RESTART_BROKER: restarts, Fault.RESTART_DATABASE: restarts}
    aims = AIMS if guarded else _AIMS_UNGUARDED
    faults = [
        Planned(
            chance.uniform(FIRST, LAST),
            fault,
            aims[fault][number % len(aims[fault])],
            chance.uniform(_SHORTEST_FREEZE, _LONGEST_FREEZE)
            if fault is Fault.FREEZE
            else chance.uniform(0, 0.05),
        )
        for fault, count in wanted.items()
        for number in range(count)
    ]
    doubled = {ident for ident, copy in pairwise(published) if ident == copy}
    return Course(published, keys, failing, slow, doubled, sorted(faults))


def _key(number: int, *, overtaking: bool, unnamed: bool) -> str:
    match number % _SHARE_OF_SPECIAL_KEYS:
        case 0 if overtaking:
            return f"{OVERTAKING}{number}"
        case 1 if unnamed:
            return f"{UNNAMED}{number}"
        case _:
            return f"k-{number}"


def _some(chance: random.Random, ids: list[str], share: float, fewest: int) -> list[str]:
    return chance.sample(ids, min(len(ids), max(fewest, round(share * len(ids)))))
