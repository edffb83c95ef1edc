"""The dashboard asks only for what the listener has, and the alerts of the documentation too."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from dupeproof.core.events import Event, Kind
from dupeproof.metrics.prometheus import PrometheusListener

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "ops/grafana.json").read_text())
ASKED = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
METRICS, ALERTS = (
    re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    for text in (ROOT / "docs/operations.md").read_text().split("## Metrics")[1].split("## Alerts")
)


@pytest.fixture(scope="module")
def samples():
    """All names and labels there are once everything has happened."""
    registry = CollectorRegistry()
    listener = PrometheusListener(registry)
    for kind in Kind:
        listener(Event(kind=kind, namespace="n", name="claim", seconds=0.1, lag=0.1))
    found = {}
    for metric in registry.collect():
        for sample in metric.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("expression", [*ASKED, *ALERTS])
def test_what_is_asked_for_is_there(samples, expression):
    names = set(re.findall(r"dupeproof_\w+", expression))
    assert names
    assert names <= samples.keys()
    for name, matchers in re.findall(r"(dupeproof_\w+)\{(.*?)\}", expression):
        assert set(re.findall(r"(\w+)=", matchers)) <= samples[name]
    for kinds in re.findall(r'kind=~?"([^"]*)"', expression):
        assert set(kinds.split("|")) <= set(Kind)
    for labels in re.findall(r"by \((.*?)\)", expression):
        assert set(labels.split(", ")) <= set().union(*(samples[name] for name in names))


def test_every_metric_is_shown(samples):
    shown = {name for expression in ASKED for name in re.findall(r"dupeproof_\w+", expression)}
    families = {re.sub(r"_(bucket|count|sum|created|total)$", "", name) for name in samples}
    assert families == {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in shown}


def test_every_metric_is_documented(samples):
    named = dict(re.findall(r"(dupeproof_\w+)(?:\{(.*?)\})?", " ".join(METRICS)))
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name): name for name in samples}
    assert named.keys() == families.keys()
    for name, labels in named.items():
        assert set(filter(None, labels.split(","))) <= samples[families[name]]


def test_panels_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
