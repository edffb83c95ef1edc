"""`dupeproof bench`: what it does a second, beside the usual ways and the other libraries."""

from pathlib import Path
from typing import Annotated, get_args

import msgspec
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dupeproof.cli.output import complain, err, made, out, say, say_json
from dupeproof.cli.target import AsJson
from dupeproof.errors import ConfigError
from dupeproof_lab.bench import page, report, text
from dupeproof_lab.bench.affinity import Pin
from dupeproof_lab.bench.machine import missing
from dupeproof_lab.bench.model import FULL, QUICK, STORES, Store
from dupeproof_lab.bench.rounds import broken
from dupeproof_lab.bench.run import Report, Request, run, total


def bench(
    only: Annotated[
        str, typer.Option("--only", metavar="STORES", help="Some of them, such as redis,memory.")
    ] = ",".join(STORES),
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=5, max=1_000, help="How often candidates take their turn.")
    ] = None,
    pin: Annotated[
        str,
        typer.Option(
            "--pin",
            metavar="same|cross|none",
            help="Client and servers on the same core, on one each, or anywhere. The same is the default: it shows "
            "what the work costs, and is what holds still from run to run.",
        ),
    ] = "same",
    redis_url: Annotated[
        str | None,
        typer.Option(
            "--redis-url",
            metavar="URL",
            help="A Redis you have; what is written there expires in 10 minutes.",
        ),
    ] = None,
    postgres_url: Annotated[
        str | None,
        typer.Option(
            "--postgres-url",
            metavar="URL",
            help="A PostgreSQL you have; a database is created there, and dropped.",
        ),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", file_okay=False, help="Where to put pictures, page and text."),
    ] = Path("out"),
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Within a minute, and less exact.")] = False,
    scaling: Annotated[
        bool, typer.Option("--scaling", help="Also let every store grow to 10 million ids (quick: 100,000).")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if a goal is missed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure dupeproof beside the usual ways by hand and the other libraries, in one run on this machine.

    Servers are started for it, on private ports, with full durability, unless given. Candidates take turns; figures are
    medians with their spread. Only ratios within one run mean something: absolute figures are those of the machine.

    The JSON has: schema, quick, pin, rounds, machine, servers, published, rows (one per candidate: name, speeds of all
    rounds, speed, p50, p99, bytes_per_id, durability, reason), weights, goals, scaling, false_positives, files.
    """
    plan = QUICK if quick else FULL
    request = Request(
        stores=_stores(only),
        plan=plan if rounds is None else msgspec.structs.replace(plan, rounds=rounds),
        pin=_pin(pin),
        given=_given(redis_url, postgres_url, scaling=scaling),
        quick=quick,
        scaling=scaling,
    )
    made(folder)
    raise typer.Exit(conclude(_run(request), folder, check=check, as_json=as_json))


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel="Try it",
        epilog="Example: **dupeproof bench --quick --only redis,memory --out out**",
    )(bench)


def conclude(found: Report, folder: Path, *, check: bool, as_json: bool) -> int:
    """Show and save what came out; the exit code."""
    files = _save(found, folder)
    if as_json:
        say_json(report.facts(found, files))
    else:
        for table in report.tables(found):
            out.print(table)
        for reason, titles in report.unmeasured(found).items():
            say(f"Not measured ({reason}): {'; '.join(titles)}")
        say(f"\n{report.headline(found)}\n")
        for kind, path in files.items():
            say(f"The {kind}: {path}")
    for line in missing(found.machine):
        complain(line)
    failed = broken(found.results.rows)
    for row in failed:
        complain(f"{row.name} {row.reason}")
    missed = check and any(each.met is False for each in found.verdicts)
    return 1 if failed or missed else 0


def _save(found: Report, folder: Path) -> dict[str, str]:
    from dupeproof_lab.bench import picture  # noqa: PLC0415 - matplotlib takes a second to load

    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    figures = picture.figures(found)
    for name, figure in figures:
        files["picture" if name == "bench" else f"{name} picture"] = folder / f"{name}.png"
        figure.savefig(folder / f"{name}.png")
    files["page"] = folder / "bench.html"
    page.write(found, [picture.as_svg(figure) for _, figure in figures], files["page"])
    files["text"] = folder / "bench.md"
    text.write(found, files["text"])
    return {kind: str(path) for kind, path in files.items()}


def _run(request: Request) -> Report:
    columns = (
        TextColumn("{task.description:<44}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    # Drawn between rounds only: a thread that draws meanwhile would take its time from somebody.
    with Progress(*columns, console=err, auto_refresh=False) as bar:
        task = bar.add_task("starting", total=total(request))

        def progress(what: str) -> None:
            bar.update(task, advance=1, description=what)
            bar.refresh()

        return run(request, progress)


def _stores(only: str) -> list[Store]:
    wanted = [name.strip() for name in only.split(",")]
    for name in wanted:
        if name not in STORES:
            raise ConfigError(f"--only knows {', '.join(STORES)}; not {name!r}")
    return [store for store in STORES if store in wanted]


def _pin(name: str) -> Pin:
    for known in get_args(Pin):
        if name == known:
            chosen: Pin = known
            return chosen
    raise ConfigError(f"--pin takes {', '.join(get_args(Pin))}; not {name!r}")


def _given(redis_url: str | None, postgres_url: str | None, *, scaling: bool) -> dict[Store, str]:
    found: dict[Store, str | None] = {"redis": redis_url, "postgres": postgres_url}
    given = {store: url for store, url in found.items() if url is not None}
    if given and scaling:
        raise ConfigError("--scaling fills servers of its own; leave --redis-url and --postgres-url out")
    return given
