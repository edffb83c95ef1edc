"""The pages that only look. Each is also what a browser fetches again every second."""

import asyncio
import time
from typing import TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from dupeproof.console.charts import HEIGHT, WIDTH, bars, line
from dupeproof.console.forms import page, path_to
from dupeproof.console.growth import Rates as GrowthRates
from dupeproof.console.listed_keys import Waiting
from dupeproof.console.rates import TROUBLE
from dupeproof.console.request_limits import Backend, OutboxState, desk_of
from dupeproof.console.store_queries import Answer, Look
from dupeproof.core.records import Stats
from dupeproof.doctor import Report
from dupeproof.inbox.groups import Group
from dupeproof.keys.names import key_digest

T = TypeVar("T")
_MOST_GROUPS = 50
_TOO_LONG = 60.0
"""Seconds that a message of the outbox may wait before a person should know."""
_digest = key_digest("outbox")


class Need(Struct, frozen=True, kw_only=True):
    """Something that waits for a person, and where it is."""

    count: int
    what: str
    why: str
    severity: str
    path: str
    leads: str


class Chart(Struct, frozen=True, kw_only=True):
    all: str
    again: str
    most: float
    width: int = WIDTH
    height: int = HEIGHT


async def overview(request: Request) -> Response:
    backend = desk_of(request)
    rates = None if backend.listener is None else backend.listener.rates()
    # Together: each is waited for a second, and a slow store is asked them all.
    stats, waiting, groups, outbox, health = await asyncio.gather(
        backend.stats(),
        backend.keys.waiting(),
        _asked(backend.groups),
        _asked(backend.outbox),
        _asked(backend.health),
    )
    answers = [each for each in (waiting, groups, outbox) if each is not None]
    return page(
        request,
        "overview.html",
        needs=_needs(request, waiting.value, groups, outbox, health),
        unknown=[each.error for each in answers if each.value is None],
        rates=rates,
        groups=[] if rates is None else rates.groups[:_MOST_GROUPS],
        trouble=[kind.value for kind in TROUBLE],
        chart=None if rates is None else _chart(rates.arriving, rates.duplicates),
        growth=_growth(backend, stats, groups),
        growth_chart=_chart_of_growth(backend),
        stats=stats,
        health=health,
        audit=backend.audit.lines()[:5],
    )


async def _asked(look: Look[T] | None) -> Answer[T] | None:
    return None if look is None else await look()


def _needs(
    request: Request,
    waiting: Waiting | None,
    groups: Answer[dict[str, Group]] | None,
    outbox: Answer[OutboxState] | None,
    health: Answer[Report] | None,
) -> list[Need]:
    """What waits for a person, the worst first."""
    needs: list[Need] = []

    def need(count: int, one: str, many: str, why: str, path: str, leads: str, severity: str) -> None:
        if count:
            what = one if count == 1 else many
            needs.append(Need(count=count, what=what, why=why, severity=severity, path=path, leads=leads))

    keys, messages = path_to(request, "keys"), path_to(request, "outbox")

    if waiting is not None:
        need(
            waiting.counts["held"], "key is held", "keys are held",
            "The work may have happened. Nobody runs it until you say whether it did.",
            f"{keys}?state=held", "See what is held", "warning",
        )  # fmt: skip
        need(
            waiting.counts["dead"], "key is dead", "keys are dead",
            "All attempts failed. Nobody tries again until you reopen it.",
            f"{keys}?state=dead", "See what is dead", "error",
        )  # fmt: skip
    if outbox is not None and outbox.value is not None:
        status = outbox.value.status
        need(
            status.dead, "message of the outbox is dead", "messages of the outbox are dead",
            "They were refused again and again, and are not published.",
            messages, "See dead messages", "error",
        )  # fmt: skip
        if status.oldest is not None and status.oldest > _TOO_LONG:
            need(
                status.backlog, "message waits in the outbox", "messages wait in the outbox",
                "The oldest waits for more than a minute. Is a relay running?",
                messages, "See the outbox", "warning",
            )  # fmt: skip
    if groups is not None and groups.value is not None:
        late = sum(group.lateness.late for group in groups.value.values())
        need(
            late, "duplicate came too late", "duplicates came too late",
            "Its window was over, so it was taken for new and its work ran twice.",
            path_to(request, "windows"), "See windows", "warning",
        )  # fmt: skip
    if health is not None and health.value is not None:
        broken = [
            each for each in health.value.findings if each.severity == "error" and "dead" not in each.code
        ]
        need(
            len(broken), "finding breaks the guarantee", "findings break the guarantee",
            "The doctor says why, and what to do.", "#health", "See below", "error",
        )  # fmt: skip
    return sorted(needs, key=lambda each: each.severity != "error")


def _growth(
    backend: Backend, stats: Answer[Stats], groups: Answer[dict[str, Group]] | None
) -> GrowthRates | None:
    found = {} if groups is None else groups.value
    if stats.value is not None and found is not None:
        duplicates = (each.lateness.duplicates for each in found.values())
        backend.growth.add(time.monotonic() - stats.age, stats.value, duplicates)
    return backend.growth.rates()


def _chart_of_growth(backend: Backend) -> Chart | None:
    rates = backend.growth.rates()
    return None if rates is None else _chart(rates.keys_between, rates.duplicates_between)


def _chart(everything: list[float], again: list[float]) -> Chart:
    most = max(everything + again, default=0.0)
    return Chart(all=line(everything, most), again=line(again, most), most=most)


async def windows(request: Request) -> Response:
    backend = desk_of(request)
    return page(
        request, "windows.html", groups=None if backend.groups is None else await backend.groups(), bars=bars
    )


async def outbox(request: Request) -> Response:
    backend = desk_of(request)
    return page(
        request,
        "outbox.html",
        outbox=None if backend.outbox is None else await backend.outbox(),
        digest=lambda key: "" if key is None else _digest(key).hex()[:12],
    )


async def purge(request: Request) -> Response:
    backend = desk_of(request)
    health = None if backend.health is None else await backend.health()
    report = None if health is None else health.value
    return page(
        request,
        "purge.html",
        stats=await backend.stats(),
        oldest=None if report is None else report.facts.get("oldest_expired"),
        findings=[] if report is None else [each for each in report.findings if "purge" in each.code],
    )


async def audit(request: Request) -> Response:
    return page(request, "audit.html", audit=desk_of(request).audit.lines())
