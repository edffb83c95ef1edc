"""Goals: what a figure is held against, and that one can be missed."""

import sys

import msgspec
import pytest
from bench_tiny import report_of, results_of, row_of, verdict_of

from dupeproof_lab.bench.benchmarks import HEATS
from dupeproof_lab.bench.benchmarks.drivers import PEERS, driver
from dupeproof_lab.bench.benchmarks.filters import filter_named
from dupeproof_lab.bench.command import conclude
from dupeproof_lab.bench.goals import GOALS, judge
from dupeproof_lab.bench.growth import GROWING, Growth, Point
from dupeproof_lab.bench.model import Unavailable
from dupeproof_lab.bench.published import PUBLISHED
from dupeproof_lab.bench.report import duration, rate, spread
from dupeproof_lab.bench.size import LAYOUTS, Weight


def goal(title):
    [found] = [each for each in GOALS if each.title == title]
    return found


RATIO_GOAL = goal("guarded call, SQLite / by hand")
PEER_GOAL = goal("guarded call, memory / fastest peer")
WEIGHT_GOAL = goal("Redis memory, compact")
GROWTH_GOAL = goal("Redis, cost of an id among 10 M / among 10 k")


@pytest.mark.parametrize(("ours", "met"), [((80, 81, 90), True), ((79, 79, 99), False)])
def test_a_ratio_is_the_median_of_the_rounds_each_beside_its_own(ours, met):
    rows = row_of("sqlite.one.new.ours", *ours), row_of("sqlite.one.new.by_hand", 100, 100, 100)
    verdict = judge(RATIO_GOAL, results_of(*rows))
    assert verdict.met is met
    assert (verdict.low, verdict.median, verdict.high) == tuple(each / 100 for each in ours)


def test_rounds_are_compared_with_the_same_round_of_the_other():
    rows = row_of("sqlite.one.new.ours", 1, 100, 9), row_of("sqlite.one.new.by_hand", 10, 1_000, 10)
    verdict = judge(RATIO_GOAL, results_of(*rows))
    assert verdict.median == 0.1


def test_a_peer_is_the_fastest_of_the_heat_and_never_ourselves_or_by_hand():
    mine = row_of("memory.one.new.ours", 10, 10)
    rows = [
        row_of("other", 99, 99, benchmark="another benchmark", who="idemkit"),
        row_of("hand", 99, 99, who="by hand"),
        row_of("also ours", 99, 99),
        row_of("slow", 1, 1, who="idemkit"),
        row_of("fast", 4, 4, who="exactly-once"),
        row_of("absent", who="powertools", reason="not installed"),
    ]
    assert judge(PEER_GOAL, results_of(mine, *rows)).median == 2.5
    without = judge(PEER_GOAL, results_of(mine, rows[-1]))
    assert (without.met, without.reason) == (None, "not installed")


@pytest.mark.parametrize(
    ("weight", "met", "reason"),
    [
        ({"count": 1, "bytes_per_id": 11.9}, True, None),
        ({"count": 1, "bytes_per_id": 12.1}, False, None),
        ({"reason": "no filters"}, None, "no filters"),
    ],
)
def test_a_weight_may_be_too_much(weight, met, reason):
    weighed = Weight(layout="redis.compact", store="redis", title="", **weight)
    verdict = judge(WEIGHT_GOAL, results_of(weights=[weighed]))
    assert (verdict.met, verdict.reason) == (met, reason)


def test_growth_is_judged_at_the_largest_size():
    def point(size, *ratios):
        return Point(size=size, seconds_per_id=1, small_seconds_per_id=1, ratios=list(ratios))

    points = [point(10_000, 9, 9), point(10_000_000, 1.4, 1.4)]
    growth = Growth(name="redis.fresh", store="redis", title="", points=points)
    assert judge(GROWTH_GOAL, results_of(growths=[growth])).met is True
    small = msgspec.structs.replace(growth, points=points[:1])
    assert "needs 10,000,000 ids" in judge(GROWTH_GOAL, results_of(growths=[small])).reason
    cut = msgspec.structs.replace(growth, reason="5 ids after 1 s")
    assert judge(GROWTH_GOAL, results_of(growths=[cut])).reason == "5 ids after 1 s"
    assert judge(GROWTH_GOAL, results_of()).reason == "needs --scaling"


def test_nothing_measured_meets_nothing():
    assert {judge(each, results_of()).met for each in GOALS} == {None}


def test_tables_name_only_contenders_there_are():
    names = {
        each.name
        for benchmarks in HEATS.values()
        for benchmark in benchmarks
        for each in benchmark.candidates
    }
    assert len(names) == sum(
        len(benchmark.candidates) for benchmarks in HEATS.values() for benchmark in benchmarks
    )
    named = {name for row in PUBLISHED for name in (*row.ours, row.same) if name is not None}
    named |= {layout.filler for layout in LAYOUTS} | {each.name for each in GROWING}
    assert named <= names
    layouts = {
        each.layout
        for benchmarks in HEATS.values()
        for benchmark in benchmarks
        for each in benchmark.candidates
    }
    assert {layout.name for layout in LAYOUTS} <= layouts


def test_every_goal_of_speed_finds_its_rows():
    """A goal whose candidate was renamed would never be measured again, and nobody would notice."""
    rows = [
        row_of(each.name, 1, 1, who=each.who, benchmark=benchmark.title)
        for benchmarks in HEATS.values()
        for benchmark in benchmarks
        for each in benchmark.candidates
    ]
    weights = [
        Weight(layout=each.name, store=each.store, title="", count=1, bytes_per_id=1) for each in LAYOUTS
    ]
    point = Point(size=10_000_000, seconds_per_id=1, small_seconds_per_id=1, ratios=[1, 1])
    growths = [Growth(name=each.name, store=each.store, title="", points=[point]) for each in GROWING]
    results = results_of(*rows, weights=weights, growths=growths, false_positives=0.001)
    assert all(judge(each, results).met is not None for each in GOALS)


@pytest.mark.parametrize(
    ("met", "check", "code"), [(True, True, 0), (None, True, 0), (False, True, 1), (False, False, 0)]
)
def test_check_ends_with_1_when_a_goal_is_missed(tmp_path, capsys, met, check, code):
    assert conclude(report_of(verdicts=[verdict_of(met)]), tmp_path, check=check, as_json=True) == code
    assert msgspec.json.decode(capsys.readouterr().out)["goals"][0]["met"] is met


def test_a_contender_of_ours_that_fails_ends_with_1_and_its_name(tmp_path, capsys):
    report = report_of(row_of("memory.seen", reason="failed: Wrong: it forgets"))
    assert conclude(report, tmp_path, check=False, as_json=True) == 1
    assert "memory.seen failed: Wrong: it forgets" in capsys.readouterr().err


def test_the_text_has_what_was_measured_and_nothing_else(tmp_path):
    absent = msgspec.structs.replace(verdict_of(None), title="another goal", median=None, low=None, high=None)
    conclude(report_of(verdicts=[verdict_of(True), absent]), tmp_path, check=False, as_json=True)
    text = (tmp_path / "bench.md").read_text()
    assert "| a goal | ≥ 2 × | 1.00 |" in text
    assert "another goal" not in text


def test_peers_that_are_missing_are_named_with_what_to_install(tmp_path, capsys):
    conclude(report_of(), tmp_path, check=False, as_json=True)
    assert (
        'idemkit is not installed and so not compared; run: pip install "idemkit[redis,postgres]"'
        in " ".join(capsys.readouterr().err.split())
    )


@pytest.mark.parametrize("name", [*PEERS, "redis", "psycopg"])
def test_a_library_that_is_not_here_is_unavailable(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unavailable, match="is not installed; run: pip install"):
        driver(name)


def test_a_filter_of_a_later_version_is_unavailable():
    with pytest.raises(Unavailable, match="has no NotYet"):
        filter_named("NotYet")


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (rate(2_000_000), "2.0 M/s"),
        (rate(999_600), "1.0 M/s"),
        (rate(15_400), "15 k/s"),
        (rate(9_940), "9.9 k/s"),
        (rate(567.4), "567/s"),
        (rate(None), "–"),
        (duration(1.2345e-7), "123 ns"),
        (duration(0.00012), "120 µs"),
        (duration(0.0512), "51.2 ms"),
        (duration(2), "2 s"),
        (spread([90, 100, 110]), "±10 %"),
    ],
)
def test_figures_are_easy_to_read(shown, text):
    assert shown == text
