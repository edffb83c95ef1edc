"""Run the candidates of a benchmark in turn, round after round, so that whatever the machine does hits all of them."""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from statistics import median, quantiles

from dupeproof.cli.output import without_secrets
from dupeproof.errors import ConfigError
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.model import OURS, Benchmark, Candidate, Plan, Row, Unavailable, make_ids
from dupeproof_lab.bench.shapes import BATCH, Feed, Log, opened

_PROOF = 20
_WARM_UP = 16
_LATENCIES = 100
"""Calls without which there is no talk of the slowest in a hundred."""
_MOST_LATENCIES = 100_000
_REPLAYED = 200
"""Keys a replay goes round and round."""


class Wrong(Exception):
    """A candidate that does not do what it is timed for."""


def race(benchmark: Benchmark, environment: Environment, plan: Plan, step: Callable[[], object]) -> list[Row]:
    """One row per candidate. `step` is told of every `steps(benchmark, plan)`."""
    environment.clean()
    with ExitStack() as stack:
        entrants = [
            Entrant(candidate, benchmark, environment, plan, stack) for candidate in benchmark.candidates
        ]
        for entrant in entrants:
            entrant.attempt(entrant.prepare)
            step()
        gc.collect()
        gc.freeze()  # what libraries and set-up left is not looked through again while the clock runs
        stack.callback(gc.unfreeze)
        if benchmark.same_count:
            for entrant in entrants:
                entrant.count = plan.same_count
        for turn in range(plan.rounds):
            at = turn % len(entrants)
            for entrant in entrants[at:] + entrants[:at]:
                entrant.attempt(entrant.run)
                step()
        for entrant in entrants:
            entrant.attempt(entrant.measure_latency)
            step()
        return [entrant.row() for entrant in entrants]


def steps(benchmark: Benchmark, plan: Plan) -> int:
    return len(benchmark.candidates) * (plan.rounds + 2)


class Entrant:
    """One candidate in a benchmark."""

    def __init__(
        self,
        candidate: Candidate,
        benchmark: Benchmark,
        environment: Environment,
        plan: Plan,
        stack: ExitStack,
    ) -> None:
        self.count = 0
        self._candidate = candidate
        self._benchmark = benchmark
        self._environment = environment
        self._plan = plan
        self._stack = stack
        self._kept: Feed | None = None
        self._keys = make_ids(_REPLAYED)
        self._speeds: list[float] = []
        self._latencies: list[int] = []
        self._reason: str | None = None

    def attempt(self, part: Callable[[], None]) -> None:
        """Whatever is wrong with one candidate, the others run on, and its row says what it was."""
        if self._reason is not None:
            return
        try:
            part()
        except (Unavailable, ConfigError) as exc:  # both say what to install
            self._reason = str(exc)
        except Exception as exc:  # noqa: BLE001 - other people's libraries, under load
            self._reason = f"failed: {type(exc).__name__}: {without_secrets(str(exc))[:200]}"

    def prepare(self) -> None:
        """See that it works, warm up, and learn how many ids fill a round. None of this counts."""
        with self._opened() as feed:
            self._prove(feed)
            count = self._least
            while (
                seconds := feed(self._ids(count), None)
            ) < self._plan.seconds / 3 and count < self._plan.most:
                count *= 4
            fitting = int(count / seconds * self._plan.seconds)
            self.count = max(self._least, min(self._plan.most, fitting) // self._least * self._least)

    @property
    def _least(self) -> int:
        """Ids without which not every caller has had its turn, or a batch is not full."""
        shape = self._candidate.shape
        return BATCH if shape.kind == "batches" else max(_WARM_UP, shape.callers)

    def run(self) -> None:
        with self._opened() as feed:
            ids = self._ids(self.count)
            gc.collect()
            self._speeds.append(self.count / feed(ids, None))

    def measure_latency(self) -> None:
        """A pass of its own: watching every call would slow the others down."""
        log: Log = []
        with self._opened() as feed:
            ids = self._ids(max(_LATENCIES, min(self.count, _MOST_LATENCIES)))
            gc.collect()
            feed(ids, log)
        self._latencies = [nanoseconds for nanoseconds, _, _ in log]

    def row(self) -> Row:
        candidate = self._candidate
        p50, p99 = _percentiles(self._latencies) if candidate.shape.kind != "loop" else (None, None)
        return Row(
            benchmark=self._benchmark.title,
            store=self._benchmark.store,
            name=candidate.name,
            who=candidate.who,
            what=candidate.what,
            shape=candidate.shape.title,
            layout=candidate.layout,
            durability=candidate.durability or self._environment.durability,
            speeds=[] if self._reason else self._speeds,
            count=self.count,
            p50=p50,
            p99=p99,
            reason=self._reason,
        )

    @contextmanager
    def _opened(self) -> Iterator[Feed]:
        """Ready to be timed: connected, warm, and on an empty store unless it is a replay."""
        if self._benchmark.replay:
            if self._kept is None:
                self._kept = self._open(self._stack)
                self._kept(self._keys, None)
            yield self._kept
        elif self._environment.reopened:
            self._environment.clean()
            with ExitStack() as stack:
                yield self._open(stack)
        else:
            if self._kept is None:
                self._kept = self._open(self._stack)
            self._environment.next_round()
            yield self._kept

    def _open(self, stack: ExitStack) -> Feed:
        candidate = self._candidate
        feed = stack.enter_context(opened(candidate.shape, candidate.make(self._environment)))
        feed(make_ids(self._least), None)
        return feed

    def _ids(self, count: int) -> list[str]:
        return list(islice(cycle(self._keys), count)) if self._benchmark.replay else make_ids(count)

    def _prove(self, feed: Feed) -> None:
        """New ids are new once; a call that is made again gives the value of before."""
        ids = make_ids(_PROOF)
        first: Log = []
        second: Log = []
        feed(ids, first)
        feed(ids, second)
        new = self._candidate.fresh
        if new is not None:
            counted = [sum(new(answer) for _, _, answer in log) for log in (first, second)]
            if counted != [_PROOF, 0]:
                raise Wrong(f"of {_PROOF} new ids it called {counted[0]} new, and then {counted[1]}")
            return
        before, after = ({given: answer for _, given, answer in log} for log in (first, second))
        if before != after or len(set(before.values())) != _PROOF:
            raise Wrong("a call made again did not give the value of before")


def broken(rows: list[Row]) -> list[Row]:
    """Rows of our own that failed: not a matter of speed."""
    return [row for row in rows if row.who == OURS and (row.reason or "").startswith("failed")]


def _percentiles(nanoseconds: list[int]) -> tuple[float | None, float | None]:
    if not nanoseconds:
        return None, None
    enough = len(nanoseconds) >= _LATENCIES
    return median(nanoseconds) / 1e9, quantiles(nanoseconds, n=100)[98] / 1e9 if enough else None
