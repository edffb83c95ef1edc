"""`dupeproof outbox`: how much waits to be published, and what to do with messages that cannot be."""

import time
from contextlib import closing
from typing import Annotated, Literal

import msgspec
import typer
from rich.table import Table

from dupeproof.cli.output import complain, out, report, say, say_json, say_pairs
from dupeproof.cli.target import AsJson, Url, after_url, chosen, existing
from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError
from dupeproof.keys.names import key_digest
from dupeproof.outbox.reports import DeadMessage
from dupeproof.outbox.sources import Source, open_source
from dupeproof.stores.urls import redact

outbox = typer.Typer(
    no_args_is_help=True,
    help="Look after the messages that wait to be published.",
    epilog="Example: **dupeproof outbox status postgresql://app@localhost/shop**",
)

UrlAndIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URL ID...", help="The database, then ids as `outbox dead` shows them.", show_default=False
    ),
]
All = Annotated[bool, typer.Option("--all", help="All dead messages.")]
_digest = key_digest("outbox")


@outbox.command(epilog="Example: **dupeproof outbox status postgresql://app@localhost/shop --json**")
def status(
    url: Url = None,
    *,
    over: Annotated[str, typer.Option("--over", metavar="1s", help="How long to measure the rate.")] = "1s",
    as_json: AsJson = False,
) -> None:
    """Show the backlog, how old it is, and how fast it is sent. This counts all that waits; it locks nothing."""
    seconds = milliseconds(over, name="--over") / 1_000
    with closing(_opened(url)) as source:
        before, began = source.status(), time.monotonic()
        time.sleep(seconds)
        now, ended = source.status(), time.monotonic()
    facts = msgspec.structs.asdict(now) | {
        "sent_per_second": round((now.sent - before.sent) / (ended - began), 1)
    }
    if as_json:
        say_json({"source": redact(chosen(url)), **facts})
        return
    facts["oldest"] = "-" if now.oldest is None else f"{now.oldest:.1f} s"
    say_pairs(
        {"source": redact(chosen(url))} | {name.replace("_", " "): value for name, value in facts.items()}
    )


@outbox.command(epilog="Example: **dupeproof outbox dead sqlite:///shop.db**")
def dead(
    url: Url = None,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List messages whose attempts are used up, oldest first. Keys are shown as digests, payloads not at all."""
    with closing(_opened(url)) as source:
        found = source.dead(limit)
    if as_json:
        say_json([_facts(message) for message in found])
        return
    if not found:
        say("no message is dead")
        return
    table = Table(box=None, header_style="dim")
    for name in _facts(found[0]):
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    for message in found:
        table.add_row(*(str(value) for value in _facts(message).values()))
    out.print(table, markup=False, highlight=False)


@outbox.command(epilog="Example: **dupeproof outbox retry sqlite:///shop.db --all**")
def retry(words: UrlAndIds = None, *, every: All = False, as_json: AsJson = False) -> None:
    """Put dead messages back in their place, with all their attempts before them. Exit code 1 when one is not dead."""
    _move(words, "retry", "put back", every=every, as_json=as_json)


@outbox.command(epilog="Example: **dupeproof outbox drop sqlite:///shop.db 018f…**")
def drop(words: UrlAndIds = None, *, every: All = False, as_json: AsJson = False) -> None:
    """Give up dead messages for good; what waited behind them goes on. Exit code 1 when one is not dead."""
    _move(words, "drop", "dropped", every=every, as_json=as_json)


def _move(
    words: list[str] | None,
    verb: Literal["retry", "drop"],
    done: str,
    *,
    every: bool,
    as_json: bool,
) -> None:
    url, ids = after_url(words)
    if every == bool(ids):
        raise ConfigError("which messages? Give their ids, or --all")
    with closing(open_source(url)) as source:
        moved = (source.retry if verb == "retry" else source.drop)(None if every else ids)
    missing = set(ids) - set(moved)
    facts = {done.replace(" ", "_"): sorted(moved), "missing": sorted(missing)}
    report(f"{done}: {len(moved):,}", facts, as_json=as_json)
    if missing:
        complain(f"not dead: {', '.join(sorted(missing))}")
        raise typer.Exit(1)


def _opened(url: str | None) -> Source:
    return open_source(existing(chosen(url)))


def _facts(message: DeadMessage) -> dict[str, object]:
    return {
        "id": message.id,
        "topic": message.topic,
        "key": "" if message.key is None else _digest(message.key).hex()[:12],
        "attempts": message.attempts,
        "dead for": f"{message.since:.0f} s",
        "error": message.error,
    }
