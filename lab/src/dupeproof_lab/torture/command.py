"""`dupeproof torture`: kill, freeze and restart a pipeline, then count its effects."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dupeproof.cli.output import complain, err, made, say, say_json, say_pairs
from dupeproof.cli.target import AsJson
from dupeproof_lab.torture import report
from dupeproof_lab.torture.run import CONCURRENCY, Now, Outcome, Request
from dupeproof_lab.torture.run import torture as run_torture
from dupeproof_lab.torture.stage import BROKERS


def torture(
    broker: Annotated[
        str, typer.Option(metavar="|".join(BROKERS), help="What carries the messages.")
    ] = "memory",
    messages: Annotated[int, typer.Option(min=10, max=10_000_000, help="How many.")] = 2_000,
    kills: Annotated[
        int, typer.Option(min=0, max=10_000, help="How often a consumer is ended with kill -9.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Chooses what goes wrong, and when.")] = 1,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A broker you have; it is not restarted. Else one is started."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A database you have; it is not restarted. Else one is started."),
    ] = None,
    handler: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="Your own handler(message), which has .id, .body and .headers."
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Returns how many effects each message id has had."),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", file_okay=False, help="Where to put the page and the JSON."),
    ] = Path("out"),
    concurrency: Annotated[
        int, typer.Option(min=1, max=100, help="How many handlers of a consumer run at once.")
    ] = CONCURRENCY,
    *,
    allow_misses: Annotated[
        bool,
        typer.Option("--allow-misses", help="Pass although a kind of fault never struck work under way."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Send messages through a pipeline whose relay and consumers are killed and frozen, and whose servers are restarted; then count.

    Without --handler it is the inbox that is tortured: every message must have its effect once, and those of a key in their
    order. With it, every delivery is handed to your function, duplicates too, and --check tells what became of them. Some
    handlers fail on purpose, and some are slow.

    Exit code 1 if an effect is missing, doubled or out of order, or if a kind of fault never struck work under way. SIGTERM ends
    it as Ctrl-C does. The same seed does the same things at the same places; what the machine makes of it may differ.
    """
    request = Request(
        broker=broker,
        messages=messages,
        kills=kills,
        seed=seed,
        url=url,
        database=database,
        handler=handler,
        check=check,
        concurrency=concurrency,
        allow_misses=allow_misses,
    )
    made(folder)
    raise typer.Exit(conclude(_run(request), folder, as_json=as_json))


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel="Try it",
        epilog="Examples: **dupeproof torture --broker rabbitmq --messages 2000 --kills 20** · "
        "**dupeproof torture --handler myapp:handle --check myapp:count**",
    )(torture)


def conclude(outcome: Outcome, folder: Path, *, as_json: bool) -> int:
    """Show and save what came out; the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    page, data = folder / "torture.html", folder / "torture.json"
    report.write(outcome, page)
    data.write_bytes(msgspec.json.encode(report.facts(outcome)))
    if as_json:
        say_json(report.facts(outcome) | {"page": str(page)})
    else:
        say(report.headline(outcome))
        say_pairs(report.pairs(outcome))
        say(f"\nThe page: {page}\nThe data: {data}")
    for line in report.violations(outcome):
        complain(line)
    return 0 if outcome.is_passed else 1


def _run(request: Request) -> Outcome:
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[faults]} faults · {task.fields[duplicates]} duplicates removed"),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[doing]}"),
    )
    with Progress(*columns, console=err) as bars:
        task = bars.add_task("", total=request.messages, faults=0, duplicates=0, doing="starting")

        def watch(now: Now) -> None:
            bars.update(
                task, completed=now.effects, faults=now.faults, duplicates=now.duplicates, doing=now.doing
            )

        # What --check prints is not what the command says.
        with redirect_stdout(sys.stderr), _sigterm_as_ctrl_c():
            return run_torture(request, watch)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """So that consumers and servers are ended on the way out."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
