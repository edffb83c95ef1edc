"""How a fault is aimed and inflicted: it waits until a process is where it is to strike, strikes, and says what it has met."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from dupeproof_lab.torture.faults import (
    DELIVERY,
    PUBLISH,
    TAKEOVER,
    TRANSACTION,
    UNNAMED,
    Course,
    Fault,
    Planned,
    Point,
)
from dupeproof_lab.torture.stage import Stage
from dupeproof_lab.torture.workers import Held, Worker

AIM_SECONDS = 30.0
"""Without anybody at the point: then it is inflicted all the same, and meets nothing that we know of."""
_TAKEOVER_SECONDS = 45.0
_TURN_SECONDS = 0.005
_ROLES = {Fault.RESTART_BROKER: "broker", Fault.RESTART_DATABASE: "database"}
_OF_RELAY = (Point.HALF_PUBLISHED, Point.CONFIRMED)


class Turn(Protocol):
    """Called while we wait: it keeps work coming, for consumers or for the relay. False when there is no more."""

    def __call__(self, *, for_relay: bool) -> bool: ...


class Striker:
    def __init__(
        self,
        stage: Stage,
        consumers: Sequence[Worker],
        relay: Worker,
        look: Callable[[], None],
        turn: Turn,
        *,
        guarded: bool,
        course: Course,
    ) -> None:
        self._stage = stage
        self._consumers, self._relay = consumers, relay
        self._look, self._turn = look, turn
        self._guarded = guarded
        self._unnamed = any(key.startswith(UNNAMED) for key in course.keys.values())
        self._doubled = course.doubled
        self._number = 0
        self.moment = 0.0
        """When the last fault struck, after its aiming."""

    def can(self, planned: Planned) -> bool:
        """Servers that somebody gave us are not ours to kill."""
        role = _ROLES.get(planned.fault)
        return role is None or self._stage.owns(role)

    def strike(self, planned: Planned) -> str | None:
        """Inflict it; what it has struck, or None when nothing that we know of was under way."""
        self._number += 1
        targets = [self._relay] if planned.aim in _OF_RELAY else self._consumers
        victim = self._aimed(planned, targets)
        time.sleep(planned.seconds if planned.fault is not Fault.FREEZE else 0.0)
        self.moment = time.monotonic()
        try:
            return self._inflict(planned, targets, victim)
        finally:
            for worker in targets:
                worker.go()

    def _aimed(self, planned: Planned, targets: Sequence[Worker]) -> Worker:
        """The first who comes to the point; anybody when nobody does."""
        asked: set[tuple[int, int]] = set()
        give_up = time.monotonic() + AIM_SECONDS
        # Without an id nothing but the position protects a message from a consumer that was taken for dead.
        alone = planned.fault is Fault.OUTLIVE
        unnamed = self._unnamed and alone
        while time.monotonic() < give_up:
            for place, worker in enumerate(targets):
                if worker.is_ready and (place, worker.generation) not in asked:
                    asked.add((place, worker.generation))
                    worker.hold(self._number, planned.aim, alone=alone, unnamed=unnamed)
                if worker.is_held(self._number) is not None:
                    for other in targets:
                        if other is not worker:
                            other.go()
                    return worker
            if not self._turn(for_relay=planned.aim in _OF_RELAY):
                break
            time.sleep(_TURN_SECONDS)
        return targets[self._number % len(targets)]

    def _inflict(self, planned: Planned, targets: Sequence[Worker], victim: Worker) -> str | None:
        match planned.fault:
            case Fault.KILL | Fault.KILL_RELAY:
                return self._met(planned, victim.kill(self._number))
            case Fault.FREEZE:
                return self._met(planned, victim.freeze(self._number, planned.seconds))
            case Fault.OUTLIVE:
                return self._outlive(victim)
            case _:
                role = _ROLES[planned.fault]
                self._stage.kill(role)
                struck = self._met(planned, victim.is_held(self._number))
                for worker in targets:
                    worker.go()
                self._stage.start(role)
                return struck

    def _outlive(self, victim: Worker) -> str | None:
        """Frozen until another one has its message, and then alive again."""
        held = victim.stop_clock(self._number)
        try:
            if held is None:
                return None
            # A copy that a producer sent proves nothing; nor does what was delivered before the session was over.
            in_hand = [ident for ident in held.in_hand if ident not in self._doubled]
            time.sleep(self._stage.session / 2)
            others = [worker for worker in self._consumers if worker is not victim]
            asked: set[tuple[int, int]] = set()
            give_up = time.monotonic() + _TAKEOVER_SECONDS
            while time.monotonic() < give_up:
                for place, worker in enumerate(others):
                    if worker.is_ready and (place, worker.generation) not in asked:
                        asked.add((place, worker.generation))
                        worker.watch(in_hand)
                if any(worker.met in in_hand for worker in others):
                    return TAKEOVER
                self._look()
                time.sleep(_TURN_SECONDS)
            return None
        finally:
            victim.thaw()

    def _met(self, planned: Planned, held: Held | None) -> str | None:
        if held is None:
            return None
        if held.point in _OF_RELAY:
            return PUBLISH
        in_transaction = self._guarded and held.point is not Point.AFTER_COMMIT
        return TRANSACTION if in_transaction and planned.fault is not Fault.RESTART_BROKER else DELIVERY
