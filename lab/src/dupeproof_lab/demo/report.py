"""What came out, in words and as a table; and whether dupeproof kept its promise."""

from typing import Any

from msgspec import Struct
from rich.table import Table

from dupeproof_lab.demo.queue import order_name
from dupeproof_lab.demo.run import Outcome

COLUMNS = ("consumer", "how", "orders", "deliveries", "kills", "duplicates", "losses", "time")
_SHOWN = 5


class Report(Struct, frozen=True, kw_only=True):
    seed: int
    orders: int
    outcomes: list[Outcome]

    @property
    def ours(self) -> Outcome:
        return next(outcome for outcome in self.outcomes if outcome.name == "dupeproof")

    @property
    def proven(self) -> bool:
        return self.ours.audit.exact


def rows(report: Report) -> list[tuple[str, ...]]:
    """The table as text, one row per consumer, in the order of `COLUMNS`."""
    return [
        (
            outcome.title,
            outcome.idea,
            f"{outcome.orders:,}",
            f"{outcome.deliveries:,}",
            f"{outcome.kills:,}",
            f"{outcome.audit.duplicates:,}",
            f"{outcome.audit.losses:,}",
            f"{outcome.seconds:.1f} s",
        )
        for outcome in report.outcomes
    ]


def table(report: Report) -> Table:
    """For a terminal of eighty columns: without how each consumer works."""
    shown = Table(title=headline(report), title_justify="left", title_style="bold", header_style="dim")
    for column in COLUMNS[:1] + COLUMNS[2:]:
        shown.add_column(column, justify="left" if column == COLUMNS[0] else "right", no_wrap=True)
    for title, _, *cells, duplicates, losses, seconds in rows(report):
        shown.add_row(f"[bold]{title}[/]", *cells, _judged(duplicates), _judged(losses), seconds)
    return shown


def _judged(count: str) -> str:
    return f"[green]{count}[/]" if count == "0" else f"[bold red]{count}[/]"


def headline(report: Report) -> str:
    messages = report.outcomes[0].messages
    return (
        f"{report.orders:,} orders in {messages:,} messages, "
        f"kill -9 about every {round(messages / max(1, report.ours.kills))} deliveries"
    )


def closing(report: Report) -> str:
    """What made the difference, in two sentences."""
    return (
        "dupeproof claims an order before the work and marks it done after it, so a kill in between leaves the key "
        "held and in doubt, neither forgotten nor open to be charged again. "
        f"Only for those orders the consumer asked the ledger whether the charge was there ({report.ours.audit.questions} "
        "times) and then resolved the key or let it run; an effect in the same database transaction as its mark would "
        "not even need the question."
    )


def violations(outcome: Outcome) -> list[str]:
    """Every way in which the charges are not the orders, one line each, the first few in full."""
    audit = outcome.audit
    found = [
        f"{outcome.title}: {order_name(number)} was {'never charged' if count == 0 else f'charged {count} times'}"
        for number, count in enumerate(audit.charges)
        if count != 1
    ]
    if audit.strangers:
        found.append(f"{outcome.title}: {audit.strangers} charges for orders that nobody made")
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], f"… and {len(found) - _SHOWN} more"]


def facts(report: Report) -> dict[str, Any]:
    return {
        "seed": report.seed,
        "orders": report.orders,
        "proven": report.proven,
        "consumers": {
            outcome.name: {
                "messages": outcome.messages,
                "deliveries": outcome.deliveries,
                "kills": outcome.kills,
                "duplicates": outcome.audit.duplicates,
                "losses": outcome.audit.losses,
                "strangers": outcome.audit.strangers,
                "questions": outcome.audit.questions,
                "seconds": round(outcome.seconds, 3),
            }
            for outcome in report.outcomes
        },
    }
