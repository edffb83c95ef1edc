"""`dupeproof dead`: what consumers could not work on, in the dead-letter queues of brokers, and what to do with it."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer
from rich.table import Table

from dupeproof.brokers import DeadLetter, DeadLetters, dead_letters
from dupeproof.cli.output import NotFound, complain, out, progress, report, say, say_json, say_pairs, size
from dupeproof.cli.target import AsJson
from dupeproof.errors import ConfigError
from dupeproof.keys.names import key_digest

dead = typer.Typer(
    no_args_is_help=True,
    help="Look after what consumers have dead-lettered.",
    epilog="Example: **dupeproof dead list amqp://app@localhost/ orders**",
)

BrokerUrl = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="The broker as `consume` takes it: amqp://…, host:port or kafka://…, redis://…, nats://….",
        show_default=False,
    ),
]
Queue = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        help="The queue, topic, stream or subject that is consumed from; or its dead-letter queue, whose name ends with .dead.",
        show_default=False,
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="Ids, or places, as `dead list` shows them.", show_default=False),
]
Place = Annotated[
    str | None,
    typer.Option(
        "--dead",
        metavar="NAME",
        help="Where the dead letters are, if not in QUEUE.dead: as `dead=` of the consumer, or a dead-letter queue of the broker's.",
        show_default=False,
    ),
]
Scan = Annotated[
    int,
    typer.Option("--scan", min=1, metavar="N", help="How many dead letters to look through for the ids."),
]
All = Annotated[bool, typer.Option("--all", help="All that are dead-lettered now.")]
_SCAN = 100_000
_COLUMNS = ("id", "place", "type", "key", "size", "attempts", "dead for", "reason")
"""Of the table; a place is shown where ids do not tell letters apart."""
_digest = key_digest("dead")


@dead.command("list", epilog="Example: **dupeproof dead list amqp://app@localhost/ orders --json**")
def list_letters(
    url: BrokerUrl,
    queue: Queue,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show.")] = 100,
    place: Place = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, oldest first. Keys are shown as digests, headers and bodies not at all."""
    with _opened(url, queue, place, max(limit, _SCAN), quiet=as_json) as letters:
        found = letters.list(limit)
    if as_json:
        say_json([_facts(letter) for letter in found])
        return
    if not found:
        say(f"no dead letters in {letters.name}")
        return
    ids = [letter.name for letter in found]
    shown = [name for name in _COLUMNS if name != "place" or len(set(ids)) < len(ids)]
    table = Table(box=None, header_style="dim")
    for name in shown:
        table.add_column(name, overflow="fold", no_wrap=name in ("id", "place"))
    for letter in found:
        row = _row(letter)
        table.add_row(*(row[name] for name in shown))
    out.print(table, markup=False, highlight=False)


@dead.command(epilog="Example: **dupeproof dead show amqp://app@localhost/ orders order-17 --body**")
def show(
    url: BrokerUrl,
    queue: Queue,
    name: Annotated[str, typer.Argument(metavar="ID", help="Its id, or its place.", show_default=False)],
    *,
    body: Annotated[
        bool, typer.Option("--body", help="Also its body, and its key as it is. They may hold personal data.")
    ] = False,
    place: Place = None,
    scan: Scan = _SCAN,
    as_json: AsJson = False,
) -> None:
    """Show a dead letter with its headers; its body only when asked for. Of an id that is there twice, both."""
    with _opened(url, queue, place, scan, quiet=as_json) as letters:
        found = letters.get(name)
    if not found:
        raise NotFound(f"no dead letter in {letters.name} has this id")
    if as_json:
        say_json([_whole(letter, body=body) for letter in found])
        return
    for number, letter in enumerate(found):
        if number:
            say("")
        facts = _whole(letter, body=body)
        text = facts.pop("body", None)
        del facts["headers"]
        say_pairs({name: "-" if value is None else value for name, value in facts.items()})
        for header, value in letter.message.headers.items():
            say(f"{header}: {value}")
        if text is not None:
            say(f"\n{text}")


@dead.command(epilog="Example: **dupeproof dead retry amqp://app@localhost/ orders --all**")
def retry(
    url: BrokerUrl,
    queue: Queue,
    ids: Ids = None,
    *,
    every: All = False,
    place: Place = None,
    scan: Scan = _SCAN,
    as_json: AsJson = False,
) -> None:
    """Put dead letters back into their queue, with the same id and all their attempts before them. Safe to repeat."""
    _move(url, queue, ids, "retry", every=every, place=place, scan=scan, as_json=as_json)


@dead.command(epilog="Example: **dupeproof dead drop amqp://app@localhost/ orders order-17**")
def drop(
    url: BrokerUrl,
    queue: Queue,
    ids: Ids = None,
    *,
    every: All = False,
    place: Place = None,
    scan: Scan = _SCAN,
    as_json: AsJson = False,
) -> None:
    """Give up dead letters for good."""
    _move(url, queue, ids, "drop", every=every, place=place, scan=scan, as_json=as_json)


def _move(
    url: str,
    queue: str,
    ids: list[str] | None,
    verb: Literal["retry", "drop"],
    *,
    every: bool,
    place: str | None,
    scan: int,
    as_json: bool,
) -> None:
    if every == bool(ids):
        raise ConfigError("which dead letters? Give their ids, or --all")
    with _opened(url, queue, place, scan, quiet=as_json) as letters:
        moved = (letters.retry if verb == "retry" else letters.drop)(None if every else ids)
    done = "put back" if verb == "retry" else "dropped"
    facts = {
        done.replace(" ", "_"): moved.done,
        "missing": moved.missing,
        "refused": moved.refused,
    }
    report(f"{done}: {len(moved.done):,}", facts, as_json=as_json)
    for name, why in moved.refused.items():
        complain(f"still a dead letter: {name}: {why}")
    if moved.missing:
        complain(f"no dead letter: {', '.join(moved.missing)}")
    if moved.missing or moved.refused:
        raise typer.Exit(1)


@contextmanager
def _opened(url: str, queue: str, place: str | None, scan: int, *, quiet: bool) -> Iterator[DeadLetters]:
    with (
        progress("dead letters looked at", quiet=quiet) as looked_at,
        dead_letters(url, queue, dead=place, scan=scan, progress=looked_at) as letters,
    ):
        yield letters


def _facts(letter: DeadLetter) -> dict[str, object]:
    message = letter.message
    return {
        "id": letter.name,
        "place": letter.place,
        "queue": letter.queue,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "died": None if letter.died is None else letter.died.isoformat(),
        "age": _age(letter.died),
        "type": message.type,
        "key": "" if message.key is None else _digest(message.key).hex()[:12],
        "size": len(message.body),
    }


def _row(letter: DeadLetter) -> dict[str, str]:
    facts = _facts(letter)
    age = _age(letter.died)
    facts["dead for"] = None if age is None else f"{age:,.0f} s"
    facts["size"] = size(len(letter.message.body))
    return {name: "-" if facts[name] is None else str(facts[name]) for name in _COLUMNS}


def _whole(letter: DeadLetter, *, body: bool) -> dict[str, object]:
    facts = {**_facts(letter), "message_id": letter.message.id, "headers": letter.message.headers}
    if body:
        facts["key"] = letter.message.key or ""
        facts |= _text(letter.message.body)
    return facts


def _text(body: bytes) -> dict[str, object]:
    try:
        return {"body": body.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "encoding": "base64"}


def _age(died: datetime | None) -> float | None:
    """Seconds. The clocks of a broker and of this machine may differ a little."""
    return None if died is None else max(0.0, round((datetime.now(UTC) - died).total_seconds(), 1))
