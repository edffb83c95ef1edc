"""Drives the torture: has messages added, does what the course says when its time has come, and waits for the end of the work."""

import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from dupeproof.brokers.base import UNGUARDED
from dupeproof.brokers.options import check_guard
from dupeproof.core.callables import is_async, takes
from dupeproof.errors import BrokerUnavailable, ConfigError
from dupeproof.outbox.failures import described
from dupeproof_lab.torture.faults import Course, Fault, Planned, course
from dupeproof_lab.torture.ledger import Audit, Ledger, audit, calls_out_of_order
from dupeproof_lab.torture.producer import Producer
from dupeproof_lab.torture.stage import Stage
from dupeproof_lab.torture.strikes import Striker
from dupeproof_lab.torture.worker import load
from dupeproof_lab.torture.workers import Worker

CONSUMERS = 2
CONCURRENCY = 3
"""Handlers of a consumer that run at once, unless it is said otherwise."""
_AHEAD = 20
"""So many messages more than the next fault needs are there, unless there are few in all."""
_MORE, _MORE_SECONDS = 5, 0.2
"""So many more are added, so often, while a fault waits for work to strike."""
_TURN_SECONDS = 0.02
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 90.0
"""Without any progress: then what is missing is lost."""


class Request(Struct, frozen=True, kw_only=True):
    broker: str
    messages: int
    kills: int
    seed: int
    url: str | None = None
    database: str | None = None
    handler: str | None = None
    check: str | None = None
    concurrency: int = CONCURRENCY
    allow_misses: bool = False


class Happened(Struct, frozen=True):
    fault: Fault
    after: float
    """Seconds since the beginning."""
    effects: int
    """How many there were by then."""
    recovered: float | None
    """Seconds until there was another one; None when another fault came before."""
    struck: str | None
    """What was under way where it struck, as far as that is certain."""


class Outcome(Struct, frozen=True, kw_only=True):
    request: Request
    versions: dict[str, str]
    published: int
    """With those that were published twice."""
    sent_again: int
    """By the relay, which did not know that they were published, or a producer that did not know that they were added."""
    failed: int
    """Attempts that failed on purpose."""
    faults: list[Happened]
    tally: dict[str, int]
    audit: Audit
    order_checked: bool
    seconds: float
    gave_up: bool
    """Without all effects, and without any progress."""
    own_deaths: int
    """Consumers that ended although nobody killed them."""
    last_words: list[str]
    """Of each consumer whose log has any; why a handler failed stands there."""

    @property
    def removed(self) -> int:
        """Deliveries without an effect, because there was one before; at least so many."""
        if self.request.handler is None:
            return self.tally.get("duplicates", 0)
        calls = self.tally.get("done", 0)
        if self.is_exact:  # then all that was published was delivered
            calls = max(calls, self.published)
        return max(0, calls - self.audit.effects - len(self.audit.lost))

    @property
    def died_of_ours(self) -> bool:
        """With our own handler there is nothing a consumer could die of; what a user's handler does is his matter."""
        return self.own_deaths > 0 and self.request.handler is None

    @property
    def missed(self) -> list[Fault]:
        """Kinds of faults that never struck anything under way."""
        struck = {each.fault for each in self.faults if each.struck is not None}
        return [
            fault
            for fault in Fault
            if fault not in struck and any(each.fault is fault for each in self.faults)
        ]

    @property
    def is_passed(self) -> bool:
        return self.is_exact and (self.request.allow_misses or not self.missed)

    @property
    def is_exact(self) -> bool:
        """Of the effects; whether the faults have put that to the test, `missed` tells."""
        return self.audit.is_exact and not self.gave_up and not self.died_of_ours


class Now(Struct):
    """For those who watch."""

    effects: int = 0
    faults: int = 0
    duplicates: int = 0
    doing: str = ""


def torture(request: Request, watch: Callable[[Now], None]) -> Outcome:
    count = _counter(request)
    with Stage(request.broker, url=request.url, database=request.database, consumers=CONSUMERS) as stage:
        return _Run(request, stage, count, watch).run()


def _counter(request: Request) -> Callable[[], dict[str, int]] | None:
    """The user's own count of effects, looked for before anything is started."""
    if (request.handler is None) is not (request.check is None):
        raise ConfigError("--handler and --check go together: what is called, and what counts its effects")
    if request.handler is None or request.check is None:
        return None
    check_guard(load(request.handler, "--handler"), None, UNGUARDED)
    counted = load(request.check, "--check")
    if is_async(counted) or not takes(counted, 0):
        raise ConfigError(f"--check: {request.check} must be a plain function without arguments")

    def count() -> dict[str, int]:
        found = counted()
        if not hasattr(found, "items"):
            raise ConfigError(
                f"{request.check} must return a dict of effects per message id; got {type(found).__qualname__}"
            )
        return {str(ident): int(number) for ident, number in found.items()}

    return count


class _Run:
    def __init__(
        self,
        request: Request,
        stage: Stage,
        count: Callable[[], dict[str, int]] | None,
        watch: Callable[[Now], None],
    ) -> None:
        self._request = request
        self._stage = stage
        self._count = count
        self._watch = watch
        self._now = Now()
        self._ledger = Ledger(stage.database)
        guarded = count is None
        self._course: Course = course(
            request.seed,
            messages=request.messages,
            kills=request.kills,
            servers=stage.owns("broker"),
            overtaking=not stage.retries_keep_place,
            unnamed=guarded and stage.kind is not None and stage.kind.positions,
            sessions=stage.kind is not None,
            guarded=guarded,
        )
        self._producer = Producer(self._course, stage.database, stage.queue)
        self._workers: list[Worker] = []
        self._guarded = guarded
        self._happened: list[Happened] = []
        self._recovering: tuple[Planned, float, int, str | None] | None = None
        self._looked = self._progress = self._topped_up = 0.0
        self._missing = 0
        """Messages that are lost, as far as that is certain by now."""

    def run(self) -> Outcome:
        self._ledger.make()
        self._check_clean()
        stage, request = self._stage, self._request
        pipes = stage.pipes.pipes if stage.pipes is not None else [None] * CONSUMERS
        self._began = time.monotonic()
        try:
            for number, pipe in enumerate(pipes):
                config = stage.consumer(number, request.handler, request.concurrency)
                self._workers.append(Worker(config, stage.folder / f"consumer-{number}.log", pipe=pipe))
            self._workers.append(Worker(stage.relay(), stage.folder / "relay.log", pipes=stage.pipes))
            self._wait_ready()
            self._producer.start()
            gave_up = self._drive()
        finally:
            self._producer.stop()
            for worker in self._workers:
                worker.stop()
        return self._outcome(gave_up=gave_up)

    @property
    def _consumers(self) -> list[Worker]:
        return self._workers[:CONSUMERS]

    @property
    def _relay(self) -> Worker:
        return self._workers[CONSUMERS]

    def _check_clean(self) -> None:
        """Effects of an earlier run would be taken for those of this one, and messages of others would be published."""
        if self._producer.waiting():
            raise ConfigError(
                "the database has messages in its outbox, which the torture would publish; empty its table "
                "dupeproof_outbox, or give another --database"
            )
        if self._count is None:
            if not self._ledger.is_empty():
                raise ConfigError(
                    "the database has effects of an earlier run; empty its tables torture_effects and torture_keys, "
                    "or give another --database"
                )
        elif any(number and ident in self._course.keys for ident, number in self._counts().items()):
            raise ConfigError("there are effects of an earlier run already; empty what --check counts")

    def _wait_ready(self) -> None:
        give_up = time.monotonic() + 60
        while not all(worker.is_ready for worker in self._workers):
            for worker in self._workers:
                worker.look()
            if time.monotonic() > give_up:
                raise ConfigError(f"the consumers do not start:\n{self._workers[0].log()}")
            time.sleep(_TURN_SECONDS)

    def _drive(self) -> bool:
        """True when it came to nothing: no progress for too long."""
        faults = list(self._course.faults)
        striker = Striker(
            self._stage,
            self._consumers,
            self._relay,
            self._turn,
            self._keep_work_coming,
            guarded=self._guarded,
            course=self._course,
        )
        self._progress = time.monotonic()
        while True:
            self._turn()
            if faults and self._now.effects + self._missing >= faults[0].at * self._request.messages:
                planned = faults.pop(0)
                if striker.can(planned):
                    self._inflict(planned, striker)
            self._allow(faults)
            if self._is_through():
                if self._producer.is_done and not faults:
                    return False  # the audit tells what is missing
                # Some are lost. The place of the next fault is to be reached without them.
                self._missing = self._producer.distinct - self._now.effects
            if self._stalled > _PATIENCE_SECONDS:
                return True
            time.sleep(_TURN_SECONDS)

    def _turn(self) -> None:
        """Look after the processes, and now and then at the effects."""
        for worker in self._workers:
            worker.look()
        if self._producer.trouble is not None:
            raise self._producer.trouble
        relay = self._relay.said
        if relay.down is not None and not relay.published:
            raise BrokerUnavailable(relay.down)
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        effects = self._effects()
        if effects > self._now.effects:
            self._progress = now
            self._recover(effects)
        self._now.effects = effects
        self._now.duplicates = self._tally()["duplicates"]
        self._watch(self._now)

    @property
    def _stalled(self) -> float:
        """Seconds since the last effect."""
        return time.monotonic() - self._progress

    def _allow(self, faults: list[Planned]) -> None:
        """Never far ahead of the next fault, so that there is work when it happens."""
        total = len(self._course.messages)
        margin = max(_MORE, min(_AHEAD, self._request.messages // 20), self._request.messages // 50)
        wanted = int(faults[0].at * total) + margin if faults else total
        self._producer.allowed = max(self._producer.allowed, wanted)

    def _keep_work_coming(self, *, for_relay: bool) -> bool:
        """While a fault waits for a process to come to its point, which needs something to do."""
        self._turn()
        now = time.monotonic()
        under_way = self._producer.distinct - self._missing - self._now.effects
        if now - self._topped_up > _MORE_SECONDS and (for_relay or under_way < _AHEAD):
            self._topped_up = now
            self._producer.allowed += _MORE
        return not self._producer.is_done or under_way > 0

    def _is_through(self) -> bool:
        """Whether nothing comes any more of what may be added by now."""
        producer = self._producer
        if not producer.is_done:
            is_all_there = self._now.effects + self._missing >= producer.distinct
            if is_all_there or producer.added < producer.allowed:
                return False
        if self._waiting():
            return False
        is_all = self._now.effects >= self._request.messages
        now = time.monotonic()
        quiet = now - max(worker.last_word for worker in self._workers)
        if not is_all:
            quiet = min(quiet, self._stalled)
        return self._stage.is_through(quiet, is_all=is_all)

    def _waiting(self) -> int:
        try:
            return self._producer.waiting()
        except Exception as exc:  # noqa: BLE001 - whatever it is called when a database is locked
            self._now.doing = f"the outbox cannot be counted now ({type(exc).__name__})"
            return 1

    def _inflict(self, planned: Planned, striker: Striker) -> None:
        if self._recovering is not None:
            self._note(None)
        self._now.doing = str(planned.fault)
        struck = striker.strike(planned)
        self._recovering = (planned, striker.moment, self._now.effects, struck)
        self._progress = time.monotonic()
        self._now.faults += 1
        self._watch(self._now)

    def _recover(self, effects: int) -> None:
        if self._recovering is not None and effects > self._recovering[2]:
            self._note(time.monotonic() - self._recovering[1])

    def _note(self, seconds: float | None) -> None:
        assert self._recovering is not None
        planned, moment, effects, struck = self._recovering
        self._recovering = None
        self._happened.append(
            Happened(planned.fault, round(moment - self._began, 2), effects, seconds, struck)
        )

    def _effects(self) -> int:
        """Messages that had an effect so far; the last known number while the database is away."""
        try:
            if self._count is None:
                return self._ledger.effects()
            return sum(1 for number in self._count().values() if number)
        except ConfigError:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever it is called when a database is being restarted
            self._now.doing = f"the effects cannot be counted now ({type(exc).__name__})"
            return self._now.effects

    def _counts(self) -> dict[str, int]:
        if self._count is None:
            return self._ledger.counts()
        try:
            return self._count()
        except ConfigError:
            raise
        except Exception as exc:
            raise ConfigError(f"--check: {self._request.check} failed: {described(exc)}") from exc

    def _tally(self) -> Counter[str]:
        return sum((worker.said.tally for worker in self._consumers), Counter[str]())

    def _outcome(self, *, gave_up: bool) -> Outcome:
        if self._recovering is not None:
            self._note(None)
        self._now.effects = self._effects()
        self._watch(self._now)
        disorder: list[str] = []
        if self._stage.keeps_order:
            calls = [call for worker in self._consumers for call in worker.said.calls]
            disorder = self._ledger.out_of_order() if self._guarded else calls_out_of_order(calls)
        return Outcome(
            request=self._request,
            versions=self._stage.versions,
            published=len(self._course.messages),
            sent_again=max(0, self._relay.said.published - len(self._course.messages)),
            failed=sum(worker.said.failed for worker in self._consumers),
            faults=self._happened,
            tally=dict(self._tally()),
            audit=audit(set(self._course.keys), self._counts(), disorder),
            order_checked=self._stage.keeps_order,
            seconds=time.monotonic() - self._began,
            gave_up=gave_up,
            own_deaths=sum(worker.own_deaths for worker in self._workers),
            last_words=[said for worker in self._consumers if (said := worker.log(lines=1))],
        )
