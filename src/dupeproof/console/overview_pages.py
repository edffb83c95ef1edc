"""The pages that only look. Each is also what a browser fetches again every second."""

from starlette.requests import Request
from starlette.responses import Response

from dupeproof.console.charts import HEIGHT, WIDTH, bars, line
from dupeproof.console.forms import page
from dupeproof.console.rates import TROUBLE
from dupeproof.console.request_limits import desk_of
from dupeproof.keys.names import key_digest

_MOST_GROUPS = 50
_digest = key_digest("outbox")


async def overview(request: Request) -> Response:
    backend = desk_of(request)
    rates = None if backend.listener is None else backend.listener.rates()
    most = max(rates.arriving, default=0.0) if rates is not None else 0.0
    return page(
        request,
        "overview.html",
        rates=rates,
        groups=[] if rates is None else rates.groups[:_MOST_GROUPS],
        trouble=[kind.value for kind in TROUBLE],
        lines={}
        if rates is None
        else {"all": line(rates.arriving, most), "again": line(rates.duplicates, most)},
        most=most,
        width=WIDTH,
        height=HEIGHT,
        stats=await backend.stats(),
        health=None if backend.health is None else await backend.health(),
        audit=backend.audit.lines()[:5],
    )


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
