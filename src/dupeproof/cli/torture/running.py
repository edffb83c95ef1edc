"""Drives the torture: publishes, does what the course says when its time has come, and waits for the end of the work."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from dupeproof.brokers.base import UNGUARDED
from dupeproof.brokers.options import check_guard
from dupeproof.cli.torture.faults import Course, Fault, Planned, course
from dupeproof.cli.torture.ledger import Audit, Ledger, audit
from dupeproof.cli.torture.stage import Stage
from dupeproof.cli.torture.worker import load
from dupeproof.cli.torture.workers import Worker
from dupeproof.core.callables import is_async, takes
from dupeproof.errors import ConfigError
from dupeproof.outbox.failures import described
from dupeproof.outbox.messages import Message

CONSUMERS = 2
_BATCH = 100
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


class Happened(Struct, frozen=True):
    fault: Fault
    after: float
    """Seconds since the beginning."""
    effects: int
    """How many there were by then."""
    recovered: float | None
    """Seconds until there was another one; None when another fault came before."""


class Outcome(Struct, frozen=True, kw_only=True):
    request: Request
    versions: dict[str, str]
    published: int
    """With those that were published twice."""
    sent_again: int
    """For want of a confirm."""
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
    def is_exact(self) -> bool:
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
        self._course: Course = course(
            request.seed,
            messages=request.messages,
            kills=request.kills,
            consumers=CONSUMERS,
            servers=stage.owns("broker"),
        )
        self._workers: list[Worker] = []
        self._happened: list[Happened] = []
        self._recovering: tuple[Planned, float, int] | None = None
        self._allowed = 0
        self._sent_again = 0
        self._published = threading.Event()
        self._trouble: Exception | None = None
        self._ending = False

    def run(self) -> Outcome:
        self._ledger.make()
        self._check_clean()
        config = self._stage.config(self._request.handler)
        pipes = self._stage.pipes.pipes if self._stage.pipes is not None else [None] * CONSUMERS
        self._began = time.monotonic()
        publishing = threading.Thread(target=self._publish, daemon=True)
        try:
            for number, pipe in enumerate(pipes):
                self._workers.append(Worker(config, self._stage.folder / f"consumer-{number}.log", pipe))
            self._wait_ready()
            publishing.start()
            gave_up = self._drive()
        finally:
            self._ending = True
            for worker in self._workers:
                worker.stop()
            if publishing.is_alive():
                publishing.join(30)
        return self._outcome(gave_up=gave_up)

    def _check_clean(self) -> None:
        """Effects of an earlier run would be taken for those of this one."""
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
                raise ConfigError(f"the consumers do not start:\n{self._workers[0].said()}")
            time.sleep(_TURN_SECONDS)

    def _publish(self) -> None:
        """All of it, but never far ahead of the next fault, so that there is work when it happens."""
        course, at = self._course, 0
        try:
            while at < len(course.messages) and not self._ending:
                until = min(self._allowed, len(course.messages), at + _BATCH)
                if until <= at:
                    time.sleep(_TURN_SECONDS)
                    continue
                self._sent_again += self._stage.publish(
                    [self._message(ident) for ident in course.messages[at:until]]
                )
                at = until
        except Exception as exc:  # noqa: BLE001 - raised again by the one who waits for it
            self._trouble = exc
        self._published.set()

    def _message(self, ident: str) -> Message:
        key = self._course.keys[ident]
        payload = json.dumps({"id": ident, "key": key}).encode()
        return Message(id=ident, topic=self._stage.queue, key=key, payload=payload, headers={})

    def _drive(self) -> bool:
        """True when it came to nothing: no progress for too long."""
        faults = list(self._course.faults)
        last_progress = looked = time.monotonic()
        while True:
            for worker in self._workers:
                worker.look()
            if self._trouble is not None:
                raise self._trouble
            now = time.monotonic()
            if now - looked >= _LOOK_SECONDS:
                looked = now
                effects = self._effects()
                if effects > self._now.effects:
                    last_progress = now
                    self._recover(effects)
                self._now.effects = effects
                self._now.duplicates = self._tally()["duplicates"]
                self._watch(self._now)
            if faults and self._now.effects >= faults[0].at * self._request.messages:
                planned = faults.pop(0)
                if self._can(planned):
                    self._inflict(planned)
                    last_progress = time.monotonic()
            ahead = faults[0].at if faults else 1.0
            margin = max(_BATCH, self._request.messages // 50)
            self._allowed = (
                int(ahead * len(self._course.messages)) + margin if faults else len(self._course.messages)
            )
            if not faults and self._published.is_set():
                is_all = self._now.effects >= self._request.messages
                quiet = time.monotonic() - max(worker.last_word for worker in self._workers)
                if not is_all:
                    quiet = min(quiet, now - last_progress)
                if self._stage.is_through(quiet, is_all=is_all):
                    return False  # the audit tells what is missing
            if now - last_progress > _PATIENCE_SECONDS:
                return True
            time.sleep(_TURN_SECONDS)

    def _can(self, planned: Planned) -> bool:
        role = {Fault.RESTART_BROKER: "broker", Fault.RESTART_DATABASE: "database"}.get(planned.fault)
        return role is None or self._stage.owns(role)

    def _inflict(self, planned: Planned) -> None:
        if self._recovering is not None:
            self._note(None)
        self._now.doing = str(planned.fault)
        self._recovering = (planned, time.monotonic(), self._now.effects)
        worker = self._workers[planned.victim]
        match planned.fault:
            case Fault.KILL:
                self._until_ready(worker)
                time.sleep(planned.seconds)
                worker.kill()
            case Fault.FREEZE:
                self._until_ready(worker)
                worker.freeze(planned.seconds)
            case Fault.RESTART_BROKER:
                self._stage.restart("broker")
            case Fault.RESTART_DATABASE:
                self._stage.restart("database")
        self._now.faults += 1
        self._watch(self._now)

    def _until_ready(self, worker: Worker) -> None:
        """One that has only begun to start has nothing to lose."""
        give_up = time.monotonic() + 30
        while not worker.is_ready and time.monotonic() < give_up:
            worker.look()
            time.sleep(_TURN_SECONDS)

    def _recover(self, effects: int) -> None:
        if self._recovering is not None and effects > self._recovering[2]:
            self._note(time.monotonic() - self._recovering[1])

    def _note(self, seconds: float | None) -> None:
        assert self._recovering is not None
        planned, moment, effects = self._recovering
        self._recovering = None
        self._happened.append(Happened(planned.fault, round(moment - self._began, 2), effects, seconds))

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
        return sum((worker.tally for worker in self._workers), Counter[str]())

    def _outcome(self, *, gave_up: bool) -> Outcome:
        if self._recovering is not None:
            self._note(None)
        order_checked = self._count is None and self._stage.keeps_order
        disorder = self._ledger.out_of_order() if order_checked else []
        return Outcome(
            request=self._request,
            versions=self._stage.versions,
            published=len(self._course.messages),
            sent_again=self._sent_again,
            faults=self._happened,
            tally=dict(self._tally()),
            audit=audit(set(self._course.keys), self._counts(), disorder),
            order_checked=order_checked,
            seconds=time.monotonic() - self._began,
            gave_up=gave_up,
            own_deaths=sum(worker.own_deaths for worker in self._workers),
            last_words=[said for worker in self._workers if (said := worker.said(lines=1))],
        )
