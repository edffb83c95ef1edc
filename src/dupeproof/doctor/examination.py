"""From a URL to a report: look at the server, then judge what was seen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dupeproof.core.durations import Duration, milliseconds
from dupeproof.doctor.common import judge_windows
from dupeproof.doctor.findings import Finding, Report, Severity
from dupeproof.errors import ConfigError
from dupeproof.stores.factory import open_store, tiers_of
from dupeproof.stores.urls import StoreURL, parse_url

_ORDER = list(Severity)


def examine(url: str, *, window: Duration | None = None, redelivery: Duration | None = None) -> Report:
    """Look, and change nothing. Raises StoreUnavailable when the server cannot be reached.

    `window` is the one your code uses, `redelivery` how long your broker may deliver a message again (its retention, or
    the longest you let a message wait for a retry): the first must not be shorter than the second.
    """
    windows = {} if window is None else {"your code": milliseconds(window, name="window")}
    limit = None if redelivery is None else milliseconds(redelivery, name="redelivery")
    if tiers := tiers_of(url):
        fast, durable = (examine(tier, window=window, redelivery=redelivery) for tier in tiers)
        kept = [each for each in fast.findings if each.code not in _FAST_TIER_MAY]
        return Report(
            store=f"{fast.store}+{durable.store}",
            facts={f"fast {name}": value for name, value in fast.facts.items()} | durable.facts,
            findings=_sorted([*kept, *durable.findings]),
        )
    open_store(url).close()  # connects to nothing; raises for a wrong URL or a missing driver
    parsed = parse_url(url)
    facts, more, found = _looked(parsed)
    findings = [*found, *judge_windows(windows | more, limit)]
    return Report(store=str(parsed), facts=facts, findings=_sorted(findings))


_FAST_TIER_MAY = ("no-persistence", "snapshots-only", "fsync", "replicas-unasked", "eviction")
"""Forget: what it forgets, the durable tier behind it knows."""


def _sorted(findings: list[Finding]) -> list[Finding]:
    """The worst first; of several nodes that say the same, one is enough."""
    once = dict.fromkeys(findings)
    return sorted(once, key=lambda finding: _ORDER.index(finding.severity))


def _looked(url: StoreURL) -> tuple[dict[str, Any], dict[str, int], Iterator[Finding] | list[Finding]]:
    """Facts for people, windows of groups, findings."""
    scheme = url.scheme.partition("+")[0]
    if scheme in ("redis", "rediss", "unix"):
        from dupeproof.doctor import redis  # noqa: PLC0415 - an extra

        nodes, kind = redis.look(url)
        facts = {"kind": kind, "primaries": len(nodes), **_plain(nodes[0])} if nodes else {"kind": kind}
        return facts, {}, [*redis.judge(nodes, kind), *redis.judge_keys(url)]
    if scheme in ("postgresql", "postgres"):
        from dupeproof.doctor import postgres  # noqa: PLC0415 - an extra

        database = postgres.look(url)
        return _plain(database), database.windows, postgres.judge(database)
    if scheme == "sqlite":
        from dupeproof.doctor import sqlite  # noqa: PLC0415 - with the others

        options = url.take(("synchronous", "timeout"))
        file = sqlite.look(Path(url.parts.path[1:]), options.get("synchronous", "full"))
        return _plain(file), file.windows, sqlite.judge(file)
    raise ConfigError(
        f"{url} is not something the doctor can look at; give a redis://, postgresql:// or sqlite:/// URL"
    )


def _plain(facts: Any) -> dict[str, Any]:
    """Those that are one value each."""
    values = msgspec.to_builtins(facts)
    return {name: value for name, value in values.items() if not isinstance(value, dict | list)}
