"""What goes wrong, and when: chosen by a seed, so that a run can be had again. Pure."""

import random
from enum import StrEnum

from msgspec import Struct

FIRST, LAST = 0.02, 0.95
"""Of the messages: faults happen while there is work before and after them."""
DOUBLED = 0.05
"""Of the messages are published twice, as a producer does that got no confirm."""
KEYS = 50
_KILLS_PER_FREEZE, _KILLS_PER_RESTART = 10, 25
_SHORTEST_FREEZE, _LONGEST_FREEZE = 0.3, 3.0


class Fault(StrEnum):
    KILL = "kill -9 of a consumer"
    FREEZE = "freeze of a consumer"
    RESTART_BROKER = "kill and restart of the broker"
    RESTART_DATABASE = "kill and restart of the database"


class Planned(Struct, frozen=True, order=True):
    at: float
    """When so much of all messages has had its effect."""
    fault: Fault
    victim: int
    """Which consumer, counted round."""
    seconds: float
    """For how long, of a freeze; a moment before it, of a kill."""


class Course(Struct, frozen=True):
    """Everything that chance decides."""

    messages: list[str]
    """Ids in the order they are published, the doubled ones twice."""
    keys: dict[str, str]
    faults: list[Planned]


def course(seed: int, *, messages: int, kills: int, consumers: int, servers: bool) -> Course:
    chance = random.Random(seed)  # noqa: S311 - no secret
    ids = [f"m-{number:07d}" for number in range(messages)]
    published: list[str] = []
    for ident in ids:
        published.append(ident)
        if chance.random() < DOUBLED:
            published.append(ident)
    keys = {ident: f"k-{chance.randrange(KEYS)}" for ident in ids}
    wanted = {Fault.KILL: kills, Fault.FREEZE: max(1, kills // _KILLS_PER_FREEZE)}
    if servers:  # drawn last: all else is the same without them
        restarts = max(1, kills // _KILLS_PER_RESTART)
        wanted |= {Fault.RESTART_BROKER: restarts, Fault.RESTART_DATABASE: restarts}
    faults = [
        Planned(
            chance.uniform(FIRST, LAST),
            fault,
            chance.randrange(consumers),
            chance.uniform(0, 0.05)
            if fault is Fault.KILL
            else chance.uniform(_SHORTEST_FREEZE, _LONGEST_FREEZE),
        )
        for fault, count in wanted.items()
        for _ in range(count)
    ]
    return Course(published, keys, sorted(faults))
