"""Dashboard and alerts ask only for what the listener and the exporter have, and the documentation names all of it."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from dupeproof import Once, Outbox
from dupeproof.core.events import Event, Kind
from dupeproof.exporter import StoreCollector
from dupeproof.exporter.readings import STATES
from dupeproof.metrics.prometheus import PrometheusListener

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "ops/grafana.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "ops/alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ASKED = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ALERTS = [rule["expr"] for rule in RULES]
PAGE = (ROOT / "docs/operations.md").read_text()
METRICS, ON_CALL = (
    re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    for text in PAGE.split("## Metrics")[1].split("## Alerts")
)
OF_PROMETHEUS = {"job"}
"""Labels that every series has when it was scraped."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """All names and labels there are once everything has happened, and stores are read that hold a bit of everything."""
    registry = CollectorRegistry()
    listener = PrometheusListener(registry)
    for kind in Kind:
        listener(Event(kind=kind, namespace="n", name="claim", seconds=0.1, lag=0.1))
    file = tmp_path_factory.mktemp("store") / "shop.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        Outbox().create_schema(connection)
    with Once(f"sqlite:///{file}", on_error="hold") as once, pytest.raises(ZeroDivisionError):
        once.run("k", lambda: 1 / 0)
    found = {}
    with closing(StoreCollector(f"sqlite:///{file}", registry=registry)):
        for metric in registry.collect():
            for sample in metric.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def check(expression, samples):
    names = set(re.findall(r"dupeproof_\w+", expression))
    assert names
    assert names <= samples.keys()
    for name, matchers in re.findall(r"(dupeproof_\w+)\{(.*?)\}", expression):
        assert set(re.findall(r"(\w+)=", matchers)) <= samples[name]
    for states in re.findall(r'state=~?"([^"]*)"', expression):
        assert set(states.split("|")) <= set(STATES)
    for kinds in re.findall(r'kind=~?"([^"]*)"', expression):
        assert set(kinds.split("|")) <= set(Kind)
    for labels in re.findall(r"(?:by|on) \((.*?)\)", expression):
        assert set(labels.split(", ")) <= OF_PROMETHEUS.union(*(samples[name] for name in names))


@pytest.mark.parametrize("expression", [*ASKED, *ALERTS])
def test_what_is_asked_for_is_there(samples, expression):
    check(expression, samples)


def test_a_rule_that_names_what_nobody_exports_is_found(samples):
    for expression in (
        "dupeproof_store_lost > 0",
        'dupeproof_store_keys{status="held"}',
        'dupeproof_store_keys{state="hold"}',
    ):
        with pytest.raises(AssertionError):
            check(expression, samples)


def test_each_alert_says_what_it_means_and_what_to_do():
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "action"}


def test_the_page_shows_each_alert():
    assert [f"`{rule['alert']}`" for rule in RULES] == ON_CALL
    [shown] = re.findall(r"```yaml\n(.*?)```", PAGE.split("## Alerts")[1], re.DOTALL)
    assert yaml.safe_load(shown)[0] in RULES


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
