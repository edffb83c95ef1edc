"""`dupeproof demo`: orders, kill -9, and three ways to live with it."""

import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dupeproof.cli.demo import page
from dupeproof.cli.demo.consumers import CONSUMERS
from dupeproof.cli.demo.report import Report, closing, facts, table, violations
from dupeproof.cli.demo.running import Outcome, Pipeline, run_all
from dupeproof.cli.drawing import load_drawing
from dupeproof.cli.output import complain, err, made, out, say, say_json
from dupeproof.cli.target import AsJson

_DRAWING = "dupeproof.cli.demo.picture"


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
    threading.Thread(target=load_drawing, args=(_DRAWING,), daemon=True).start()
    report = Report(seed=seed, orders=orders, outcomes=_run(orders, seed))
    raise typer.Exit(conclude(report, folder, as_json=as_json))


def conclude(report: Report, folder: Path, *, as_json: bool) -> int:
    """Show and save what came out; the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    picture, written = folder / "demo.png", folder / "demo.html"
    page.write(report, written)
    drawing = load_drawing(_DRAWING)
    if drawing is not None:
        drawing.draw(report, picture)
    if as_json:
        say_json({**facts(report), "picture": str(picture) if drawing else None, "page": str(written)})
    else:
        out.print(table(report))
        out.print(closing(report), highlight=False)
        say(f"\nThe page:    {written}")
        say(f"The picture: {picture}" if drawing else 'The picture needs: pip install "dupeproof[bench]"')
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
