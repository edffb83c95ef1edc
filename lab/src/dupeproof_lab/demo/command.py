"""`dupeproof demo`: orders, kill -9, and three ways to live with it."""

import tempfile
import threading
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dupeproof.cli.output import complain, err, made, out, say, say_json
from dupeproof.cli.target import AsJson
from dupeproof_lab.demo import page
from dupeproof_lab.demo.consumers import CONSUMERS
from dupeproof_lab.demo.report import Report, closing, facts, table, violations
from dupeproof_lab.demo.run import Outcome, Pipeline, run_all


def demo(
    orders: Annotated[
        int, typer.Option("--orders", min=10, max=100_000, help="How many orders to make.")
    ] = 1_000,
    seed: Annotated[
        int, typer.Option("--seed", help="Chooses the orders, the resent ones and the kills.")
    ] = 1,
    folder: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", file_okay=False, help="Where to put the picture and the page."),
    ] = Path("out"),
    *,
    as_json: AsJson = False,
) -> None:
    """Kill the consumers of an order pipeline again and again, and count what was charged.

    The same orders go to three consumers: a naive one, one that marks first, and one with dupeproof. All of it runs on
    SQLite files in a temporary folder. Exit code 1 if dupeproof lost an order or charged one twice.
    """
    made(folder)
    # The first import after an installation looks through all fonts, which takes seconds: do it meanwhile.
    threading.Thread(target=import_module, args=("dupeproof_lab.demo.picture",), daemon=True).start()
    report = Report(seed=seed, orders=orders, outcomes=_run(orders, seed))
    raise typer.Exit(conclude(report, folder, as_json=as_json))


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel="Try it",
        epilog="Example: **dupeproof demo --orders 1000 --out out**",
    )(demo)


def conclude(report: Report, folder: Path, *, as_json: bool) -> int:
    """Show and save what came out; the exit code."""
    from dupeproof_lab.demo import picture as drawing  # noqa: PLC0415 - matplotlib takes a second to load

    folder.mkdir(parents=True, exist_ok=True)
    picture, written = folder / "demo.png", folder / "demo.html"
    page.write(report, written)
    drawing.draw(report, picture)
    if as_json:
        say_json({**facts(report), "picture": str(picture), "page": str(written)})
    else:
        out.print(table(report))
        out.print(closing(report), highlight=False)
        say(f"\nThe page:    {written}")
        say(f"The picture: {picture}")
    for line in violations(report.ours):
        complain(line)
    return 0 if report.proven else 1


def _run(orders: int, seed: int) -> list[Outcome]:
    columns = (
        TextColumn("[bold]{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("killed {task.fields[kills]:>3} times"),
        TimeElapsedColumn(),
    )
    with (
        tempfile.TemporaryDirectory(prefix="dupeproof-demo-") as folder,
        Progress(*columns, console=err) as bars,
    ):
        tasks: dict[str, TaskID] = {
            name: bars.add_task(kind.title, total=None, kills=0) for name, kind in CONSUMERS.items()
        }

        def progress(pipeline: Pipeline) -> None:
            at = pipeline.queue.progress()
            bars.update(tasks[pipeline.name], completed=at.acked, total=at.messages, kills=pipeline.kills)

        return run_all(Path(folder), orders=orders, seed=seed, progress=progress)
