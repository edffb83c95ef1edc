"""What came out, in words, as a page and for programs."""

import statistics
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from dupeproof.core.plurals import counted
from dupeproof_lab.pages import html_table, write_page
from dupeproof_lab.torture.faults import WHAT, Fault
from dupeproof_lab.torture.run import CONCURRENCY, Outcome, Request

_SHOWN = 10


def headline(outcome: Outcome) -> str:
    request = outcome.request
    where = f"{request.broker}{f' ({request.handler})' if request.handler else ''}"
    verdict = (
        "every message had its effect once" if outcome.is_exact else "NOT every message had its effect once"
    )
    messages, faults = counted(request.messages, "message"), counted(len(outcome.faults), "fault")
    return f"{messages} through {where}, {faults}: {verdict}"


def pairs(outcome: Outcome) -> dict[str, object]:
    found, times = outcome.audit, recoveries(outcome)
    shown: dict[str, object] = {
        "published": f"{outcome.published:,}, {outcome.published - outcome.request.messages:,} of them twice",
        "sent again, not recorded": outcome.sent_again,
        "attempts that failed on purpose": outcome.failed,
        **{str(fault): said(strikes) for fault, strikes in struck(outcome).items()},
        "duplicates delivered and removed": f"{outcome.removed:,} or more",
        "lost": len(found.lost),
        "doubled": len(found.doubled),
        "out of order": len(found.out_of_order)
        if outcome.order_checked
        else "not promised here, not checked",
    }
    if outcome.tally.get("dead"):
        shown["dead-lettered, because their handler failed"] = outcome.tally["dead"]
    if found.strangers:
        shown["of messages nobody published"] = len(found.strangers)
    if outcome.own_deaths:
        shown["consumers and relays that ended by themselves"] = outcome.own_deaths
    if times:
        shown["next effect after a fault"] = f"{statistics.median(times):.1f} s, at most {max(times):.1f} s"
    shown["time"] = f"{outcome.seconds:.0f} s"
    return shown


class Strikes(msgspec.Struct, frozen=True):
    """What came of one kind of fault."""

    inflicted: int
    struck: int
    what: dict[str, int]
    """Under way where it struck, and how often."""


def struck(outcome: Outcome) -> dict[Fault, Strikes]:
    found: dict[Fault, Strikes] = {}
    for fault in Fault:
        met = [each.struck for each in outcome.faults if each.fault is fault]
        if met:
            what = {each: met.count(each) for each in WHAT if each in met}
            found[fault] = Strikes(len(met), sum(what.values()), what)
    return found


def said(strikes: Strikes) -> str:
    if not strikes.struck:
        return f"{strikes.inflicted:,}, NONE of them struck anything under way"
    what = ", ".join(f"{number:,} {name}" for name, number in strikes.what.items())
    return f"{strikes.inflicted:,}, of which {strikes.struck:,} struck: {what}"


def recoveries(outcome: Outcome) -> list[float]:
    return [each.recovered for each in outcome.faults if each.recovered is not None]


def violations(outcome: Outcome) -> list[str]:
    found = outcome.audit
    lines = [
        f"{counted(len(part), 'message')} {what}: {', '.join(list(part)[:_SHOWN])}{' …' if len(part) > _SHOWN else ''}"
        for part, what in (
            (found.lost, "had no effect"),
            (found.doubled, "had more than one effect"),
            (found.out_of_order, "had their effect after a later one with their key"),
            (found.strangers, "had an effect and were never published"),
        )
        if part
    ]
    if outcome.missed and not outcome.request.allow_misses:
        lines += [
            f"{fault}: it never struck anything under way, so this run does not show what comes of it; "
            "give it more --messages, or pass --allow-misses"
            for fault in outcome.missed
        ]
    if outcome.died_of_ours:
        lines.append(f"{outcome.own_deaths:,} times a consumer or the relay ended by itself")
    if outcome.gave_up:
        lines.append("it came to a stop: no effect for a long time, although there was work")
    if found.lost and outcome.last_words:
        lines.append(f"the last that the consumers said: {' · '.join(outcome.last_words)}")
    if lines:
        lines.append(f"again with the same faults in the same places: {command(outcome.request)}")
    return lines


def command(request: Request) -> str:
    """The same again; what stands for URLs is to be filled in, because they may hold passwords."""
    parts = [
        f"dupeproof torture --broker {request.broker} --messages {request.messages} --kills {request.kills}",
        f"--seed {request.seed}",
        *([] if request.concurrency == CONCURRENCY else [f"--concurrency {request.concurrency}"]),
        *(f"--{name} …" for name in ("url", "database") if getattr(request, name) is not None),
    ]
    if request.handler is not None:
        parts.append(f"--handler {request.handler} --check {request.check}")
    return " ".join(parts)


def facts(outcome: Outcome) -> dict[str, Any]:
    """Without the URLs: they may hold passwords."""
    plain: dict[str, Any] = msgspec.to_builtins(outcome)
    plain["request"].pop("url")
    plain["request"].pop("database")
    return {
        "passed": outcome.is_passed,
        "exact": outcome.is_exact,
        "struck": {fault.name.lower(): strikes for fault, strikes in struck(outcome).items()},
        "missed": [fault.name.lower() for fault in outcome.missed],
        "kills": sum(each.fault.name == "KILL" for each in outcome.faults),
        "lost": len(outcome.audit.lost),
        "doubled": len(outcome.audit.doubled),
        "out_of_order": len(outcome.audit.out_of_order) if outcome.order_checked else None,
        "duplicates_removed": outcome.removed,
        "reproduce": command(outcome.request),
        **plain,
    }


def write(outcome: Outcome, path: Path) -> None:
    rows = [
        (name, f"{value:,}" if isinstance(value, int) else str(value))
        for name, value in pairs(outcome).items()
    ]
    happened = [
        (
            f"{each.after:.1f} s",
            str(each.fault),
            f"{each.effects:,}",
            each.struck or "nothing that we know of",
            "" if each.recovered is None else f"{each.recovered:.2f} s",
        )
        for each in outcome.faults
    ]
    wrong = "".join(f"<p class=wrong>{escape(line)}</p>" for line in violations(outcome))
    body = (
        f"<h1>{escape(headline(outcome))}</h1>{wrong}{html_table(('', ''), rows, left=(0, 1))}"
        f"<h2>What was done to it</h2>"
        f"{html_table(('after', 'fault', 'effects by then', 'struck', 'next effect after'), happened, left=(1, 3))}"
    )
    versions = "".join(f", {name} {version}" for name, version in outcome.versions.items())
    write_page(
        path,
        title="dupeproof torture",
        body=body,
        style="  .wrong { color: #c92a2a; font-weight: 600; }\n",
        made=f"{versions}; {command(outcome.request)}",
    )
