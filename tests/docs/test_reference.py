"""The reference says what every option, method and field does, with the default that the code has."""

import importlib
import inspect
import json
import re
from html import unescape
from pathlib import Path
from typing import get_type_hints

import pytest

from dupeproof import errors
from dupeproof.brokers.options import ConsumeOptions, make_plan
from dupeproof.core.states import TABLE
from dupeproof.guards.claims import Claim
from dupeproof.guards.once import Once
from dupeproof.http.rules import SHARED, GuardOptions, RequestOptions, make_rules
from support.places import django_set_up

django_set_up()
ROOT = Path(__file__).parents[2]
COMMON = ("brokers", "Options of every consumer")
OF_HTTP = ("http", "Options of all of them")
TAKES_OPTIONS = [
    ("dupeproof.Once", "guards", "Once"),
    ("dupeproof.Once.__call__", "guards", "The decorator"),
    ("dupeproof.Once.entries", "guards", "Methods of Once"),
    ("dupeproof.Cooldown", "guards", "Cooldown"),
    ("dupeproof.OneTimeTokens", "guards", "OneTimeTokens"),
    ("dupeproof.stores.open_store", "guards", "Stores"),
    ("dupeproof.Inbox", "inbox-outbox", "Inbox"),
    ("dupeproof.Outbox", "inbox-outbox", "Outbox"),
    ("dupeproof.Outbox.add", "inbox-outbox", "Outbox"),
    ("dupeproof.Relay", "inbox-outbox", "Relay"),
    ("dupeproof.sqlalchemy.tables", "migrations", "tables"),
    ("dupeproof.alembic.upgrade", "migrations", "upgrade"),
    ("dupeproof.alembic.downgrade", "migrations", "downgrade"),
    ("dupeproof.brokers.rabbitmq.consumer", "brokers", "RabbitMQ"),
    ("dupeproof.brokers.rabbitmq.consume", "brokers", "RabbitMQ"),
    ("dupeproof.brokers.rabbitmq.RabbitPublisher", "brokers", "RabbitPublisher"),
    ("dupeproof.brokers.kafka.consumer", "brokers", "Kafka"),
    ("dupeproof.brokers.kafka.consume", "brokers", "Kafka"),
    ("dupeproof.brokers.kafka.KafkaPublisher", "brokers", "KafkaPublisher"),
    ("dupeproof.brokers.kafka.Transformer", "brokers", "Transformer"),
    ("dupeproof.brokers.kafka.transform", "brokers", "Transformer"),
    ("dupeproof.brokers.kafka.forward", "brokers", "forward"),
    ("dupeproof.brokers.redis_streams.consumer", "brokers", "Redis Streams"),
    ("dupeproof.brokers.redis_streams.consume", "brokers", "Redis Streams"),
    ("dupeproof.brokers.redis_streams.RedisStreamPublisher", "brokers", "RedisStreamPublisher"),
    ("dupeproof.brokers.nats.consumer", "brokers", "NATS"),
    ("dupeproof.brokers.nats.consume", "brokers", "NATS"),
    ("dupeproof.brokers.nats.NatsPublisher", "brokers", "NatsPublisher"),
    ("dupeproof.brokers.memory.consumer", "brokers", "In memory, for tests"),
    ("dupeproof.brokers.memory.consume", "brokers", "In memory, for tests"),
    ("dupeproof.brokers.memory.MemoryPublisher", "brokers", "MemoryPublisher"),
    ("dupeproof.brokers.dead_letters", "brokers", "Dead letters"),
    ("dupeproof.brokers.faststream.InboxMiddleware", "brokers", "FastStream"),
    ("dupeproof.brokers.health.serve_health", "brokers", "Health"),
    ("dupeproof.http.IdempotencyMiddleware", "http", "ASGI"),
    ("dupeproof.http.fastapi.idempotent", "http", "FastAPI"),
    ("dupeproof.http.fastapi.idempotent_route", "http", "FastAPI"),
    ("dupeproof.http.fastapi.document", "http", "document"),
    ("dupeproof.http.wsgi.IdempotencyMiddleware", "http", "WSGI"),
    ("dupeproof.http.flask.Idempotent", "http", "Flask"),
    ("dupeproof.http.django.Idempotent", "http", "Django"),
    ("dupeproof.http.client.IdempotentTransport", "http", "Clients"),
    ("dupeproof.cleanup.Purger", "operating", "Purger"),
    ("dupeproof.metrics.prometheus.PrometheusListener", "operating", "Metrics"),
    ("dupeproof.metrics.otel.OpenTelemetryListener", "operating", "Metrics"),
    ("dupeproof.metrics.otel.TracedCodec", "operating", "Metrics"),
    ("dupeproof.metrics.logs.LogListener", "operating", "Metrics"),
    ("dupeproof.exporter.StoreCollector", "operating", "Exporter"),
    ("dupeproof.console.ConsoleApp", "operating", "Console"),
    ("dupeproof.doctor.examine", "operating", "Doctor"),
    ("dupeproof.filters.Bloom", "keys-filters", "Bloom and RotatingBloom"),
    ("dupeproof.filters.RotatingBloom", "keys-filters", "Bloom and RotatingBloom"),
    ("dupeproof.filters.RedisBloom", "keys-filters", "RedisBloom"),
    ("dupeproof.filters.CompactSeen", "keys-filters", "CompactSeen"),
    ("dupeproof.filters.SequenceGuard", "keys-filters", "SequenceGuard"),
    ("dupeproof.filters.InFront", "keys-filters", "InFront"),
]
HAS_METHODS = [
    ("dupeproof.Once", "guards", "Once"),
    ("dupeproof.Cooldown", "guards", "Cooldown"),
    ("dupeproof.OneTimeTokens", "guards", "OneTimeTokens"),
    ("dupeproof.Inbox", "inbox-outbox", "Inbox"),
    ("dupeproof.Outbox", "inbox-outbox", "Outbox"),
    ("dupeproof.Relay", "inbox-outbox", "Relay"),
    ("dupeproof.outbox.Publisher", "inbox-outbox", "Publisher"),
    ("dupeproof.brokers.consumer.Consumer", "brokers", "The consumer"),
    ("dupeproof.brokers.publisher.BrokerPublisher", "brokers", "Publishers"),
    ("dupeproof.brokers.DeadLetters", "brokers", "Dead letters"),
    ("dupeproof.brokers.kafka.Transformer", "brokers", "Transformer"),
    ("dupeproof.http.wsgi.IdempotencyMiddleware", "http", "WSGI"),
    ("dupeproof.http.flask.Idempotent", "http", "Flask"),
    ("dupeproof.http.client.IdempotentTransport", "http", "Clients"),
    ("dupeproof.http.idempotency", "http", "In a handler"),
    ("dupeproof.http.forms", "http", "Forms"),
    ("dupeproof.cleanup.Purger", "operating", "Purger"),
    ("dupeproof.exporter.StoreCollector", "operating", "Exporter"),
    ("dupeproof.testing", "operating", "Testing"),
    ("dupeproof.filters.RotatingBloom", "keys-filters", "Bloom and RotatingBloom"),
    ("dupeproof.filters.RedisBloom", "keys-filters", "RedisBloom"),
    ("dupeproof.filters.CompactSeen", "keys-filters", "CompactSeen"),
    ("dupeproof.filters.SequenceGuard", "keys-filters", "SequenceGuard"),
    ("dupeproof.filters.InFront", "keys-filters", "InFront"),
]
HAS_FIELDS = [
    ("dupeproof.guards.Result", "guards", "Result"),
    ("dupeproof.Entry", "guards", "Entry"),
    ("dupeproof.Done", "guards", "Done, NotDone, Unknown"),
    ("dupeproof.guards.Settled", "guards", "Settled"),
    ("dupeproof.guards.results.DeadCall", "guards", "DeadCall"),
    ("dupeproof.core.records.Stats", "guards", "Methods of Once"),
    ("dupeproof.core.records.Health", "guards", "Methods of Once"),
    ("dupeproof.outbox.Added", "inbox-outbox", "Outbox"),
    ("dupeproof.outbox.Message", "inbox-outbox", "Message"),
    ("dupeproof.outbox.OutboxStatus", "inbox-outbox", "OutboxStatus, DeadMessage"),
    ("dupeproof.outbox.DeadMessage", "inbox-outbox", "OutboxStatus, DeadMessage"),
    ("dupeproof.brokers.base.Message", "brokers", "Message"),
    ("dupeproof.brokers.outcomes.Health", "brokers", "Health"),
    ("dupeproof.brokers.DeadLetter", "brokers", "Dead letters"),
    ("dupeproof.brokers.dead.Moved", "brokers", "Dead letters"),
    ("dupeproof.brokers.outcomes.Tally", "brokers", "The consumer"),
    ("dupeproof.brokers.kafka.transformer.Transformed", "brokers", "Transformer"),
    ("dupeproof.cleanup.PurgeReport", "operating", "Purger"),
    ("dupeproof.doctor.Report", "operating", "Doctor"),
    ("dupeproof.doctor.Finding", "operating", "Doctor"),
    ("dupeproof.filters.FilterStats", "keys-filters", "Bloom and RotatingBloom"),
]
TWINS = [
    "dupeproof.Once",
    "dupeproof.Once.__call__",
    "dupeproof.Cooldown",
    "dupeproof.OneTimeTokens",
    "dupeproof.Inbox",
    "dupeproof.Outbox",
    "dupeproof.Outbox.add",
    "dupeproof.Relay",
    "dupeproof.cleanup.Purger",
    "dupeproof.brokers.rabbitmq.RabbitPublisher",
    "dupeproof.brokers.kafka.KafkaPublisher",
    "dupeproof.brokers.redis_streams.RedisStreamPublisher",
    "dupeproof.brokers.nats.NatsPublisher",
    "dupeproof.brokers.memory.MemoryPublisher",
    "dupeproof.http.client.IdempotentTransport",
]
"""What has an `Async` one of the same options."""


def found(path):
    """What a dotted path names: a module, or something in one, which comes first where both have the name."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(found(module), name) if module else importlib.import_module(path)
    except AttributeError:
        return importlib.import_module(path)


def section(page, heading):
    """From a heading to the next of its level or above, with the sections below it."""
    text = (ROOT / f"docs/reference/{page}.md").read_text()
    start = re.search(rf"^(##+) {re.escape(heading)}\n", text, re.MULTILINE)
    assert start is not None, f"{page}.md has no section {heading!r}"
    end = re.search(rf"^#{{2,{len(start[1])}}} ", text[start.end() :], re.MULTILINE)
    return text[start.end() :] if end is None else text[start.end() : start.end() + end.start()]


def rows(page, heading):
    """What stands under `option`, and the defaults that are given for it: of several tables, several."""
    defaults = {}
    for name, default in re.findall(
        r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \| [^|]+ \|$", section(page, heading), re.MULTILINE
    ):
        defaults.setdefault(name, set()).add(default)
    return defaults


def mentioned(page, heading):
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", section(page, heading)))))


def parameters(of):
    named = inspect.signature(of).parameters.values()
    return [
        each
        for each in named
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and each.name != "self"
    ]


def shown(default):
    """As the reference writes it; None for what only words can say."""
    match default:
        case inspect.Parameter.empty:
            return "required"
        case None | bool() | ():
            return f"`{default}`"
        case str():
            return f"`{json.dumps(default)}`"
        case int():
            return f"`{default:_}`"
        case float():
            return f"`{default}`"
        case tuple():
            return f"`({', '.join(map(json.dumps, default))})`"
    return None


@pytest.mark.parametrize(("path", "page", "heading"), TAKES_OPTIONS, ids=lambda each: each)
def test_every_option_has_a_row_with_its_default(path, page, heading):
    known = rows(page, heading)
    if path.endswith((".consumer", ".consume")):
        known = {**rows(*COMMON), **known}
    connection = {"connection"} if path.endswith(".add") else set()
    wanted = [each for each in parameters(found(path)) if each.name not in connection]
    assert [each.name for each in wanted if each.name not in known] == []
    wrong = {
        each.name: known[each.name]
        for each in wanted
        if (value := shown(each.default)) is not None and value not in known[each.name]
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("options", "page", "heading"),
    [
        (ConsumeOptions, *COMMON),
        (RequestOptions, "http", "Options of requests"),
        (GuardOptions, "http", "Options of the guard"),
    ],
)
def test_every_option_of_many_functions_has_a_row(options, page, heading):
    assert set(get_type_hints(options)) <= set(rows(page, heading))


def test_no_row_is_of_an_option_that_is_gone():
    """What a table has and no signature does."""
    given = {(page, heading): set() for _, page, heading in TAKES_OPTIONS}
    for path, page, heading in TAKES_OPTIONS:
        given[page, heading] |= {each.name for each in parameters(found(path))}
    gone = {
        place: left
        for place, names in given.items()
        if (left := set(rows(*place)) - names - _of_sections_below(*place, given))
    }
    assert gone == {}


def _of_sections_below(page, heading, given):
    below = re.findall(r"^###+ (.+)$", section(page, heading), re.MULTILINE)
    return {name for each in below for name in given.get((page, each), ())}


def test_defaults_of_options_of_many_functions_are_those_of_the_code():
    known = rows(*COMMON)
    for each in parameters(make_plan):
        assert shown(each.default) in known[each.name], each.name
    known, rules = rows("http", "Options of requests"), make_rules(SHARED, {}, is_async=False)
    for name in ("required", "headers", "request_limit", "response_limit"):
        assert shown(getattr(rules, name)) in known[name], name
    assert known["key"] == {shown(rules.header)}
    assert known["methods"] == {'`("POST", "PATCH")`'}
    assert rules.methods == {"POST", "PATCH"}
    assert known["stream_after"] == {'`"1s"`'}
    assert rules.stream_after == 1.0
    known, guard = rows("http", "Options of the guard"), inspect.signature(Once).parameters
    for name in ("window", "lease", "max_attempts", "on_store_down", "events", "cache"):
        assert shown(guard[name].default) in known[name], name


@pytest.mark.parametrize(("path", "page", "heading"), HAS_METHODS, ids=lambda each: each)
def test_every_method_says_what_it_returns_and_takes(path, page, heading):
    owner, text, words = found(path), section(page, heading), mentioned(page, heading)
    named = getattr(owner, "__all__", None) or [name for name in vars(owner) if not name.startswith("_")]
    methods = {name: each for name in named if inspect.isfunction(each := getattr(owner, name))}
    methods = {
        name: each
        for name, each in methods.items()
        if not inspect.ismodule(owner) or each.__module__.startswith("dupeproof")
    }
    assert methods
    assert [name for name in methods if f"`{name}(" not in text and name not in words] == []
    missing = {
        name: left
        for name, each in methods.items()
        if (left := [one.name for one in parameters(each) if one.name not in words])
    }
    assert missing == {}


def test_every_function_of_keys_says_what_it_takes():
    """Those that are drawn; the others are for the library itself."""
    text, words = section("keys-filters", "Keys"), mentioned("keys-filters", "Keys")
    drawn = re.findall(r"^::: (\S+)", text, re.MULTILINE)
    assert drawn
    for path in drawn:
        assert f"| `{path.rpartition('.')[2]}(" in text
        assert {each.name for each in parameters(found(path))} <= words, path


def test_every_member_of_a_claim_has_a_row():
    inside = {"beat", "call", "accept", "closed", "closing", "give_up", "go_unguarded", "is_open"}
    inside |= {"leave", "not_recorded", "renewal", "renewal_refused", "request", "run", "settle_with", "shut"}
    public = {name for name in vars(Claim) if not name.startswith("_")} - inside
    assert public - mentioned("guards", "Claim") == set()


@pytest.mark.parametrize(("path", "page", "heading"), HAS_FIELDS, ids=lambda each: each)
def test_every_field_is_there(path, page, heading):
    assert set(found(path).__struct_fields__) - mentioned(page, heading) == set()


@pytest.mark.parametrize("path", TWINS)
def test_the_async_one_has_the_same_options(path):
    twin = re.sub(r"\.([A-Z])", r".Async\1", path, count=1)
    ours, theirs = parameters(found(path)), parameters(found(twin))
    assert [(each.name, each.default) for each in ours] == [(each.name, each.default) for each in theirs]


@pytest.mark.parametrize(
    "name",
    [name for name, each in vars(errors).items() if inspect.isclass(each) and name != "DupeproofError"],
)
def test_every_error_says_when_and_what_to_do(name):
    text = (ROOT / "docs/reference/errors.md").read_text()
    row = re.search(rf"^\| `{name}` \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE)
    assert row is not None or f"`{name}`" in section("errors", "Tokens").split("|")[0]


def test_the_picture_has_every_transition():
    titles = re.findall(r"<g><title>(.*?)</title>", (ROOT / "docs/images/states.svg").read_text())
    drawn = set()
    for title in map(unescape, titles):
        event, sources, after = re.fullmatch(r"(.*): from (.*) to (\w+)", title).groups()
        drawn |= {(state, event, after) for state in sources.split(", ")}
    table = {(state, event, after) for state, events in TABLE.items() for event, after in events.items()}
    assert drawn == table


def test_a_reader_needs_no_network():
    """Material for MkDocs fetches a script for Mermaid, and fonts, from elsewhere."""
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings
    assert not re.search(r"mermaid|extra_javascript", settings)
    fetched = re.compile(r"^```mermaid|!\[.*\]\(https?:|<script", re.MULTILINE)
    assert [each.name for each in (ROOT / "docs").rglob("*.md") if fetched.search(each.read_text())] == []


def test_long_lines_of_code_wrap():
    assert "extra_css: [stylesheets/wrap.css]" in (ROOT / "mkdocs.yml").read_text()
    style = (ROOT / "docs/stylesheets/wrap.css").read_text()
    assert re.search(r"pre > code \{[^}]*white-space: pre-wrap;", style)
