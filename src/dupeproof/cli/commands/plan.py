"""`dupeproof plan`: what a rate and a window will take."""

from typing import Annotated

import msgspec
import typer
from rich.progress import Progress
from rich.table import Table

from dupeproof import defaults
from dupeproof.cli.output import err, out, say, say_json, say_pairs
from dupeproof.cli.plan.measurement import Measured, measure
from dupeproof.cli.plan.plan import Plan, demand
from dupeproof.cli.plan.plan import plan as planned
from dupeproof.cli.target import AsJson
from dupeproof.stores.urls import parse_url

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def plan(
    rate: Annotated[str, typer.Option(metavar="N/s", help="New ids: 500/s, 2k/s, 3M/d.")],
    window: Annotated[
        str, typer.Option(metavar="DURATION", help="How long each is remembered.")
    ] = defaults.WINDOW,
    result_size: Annotated[
        int, typer.Option(min=0, max=10_000_000, metavar="BYTES", help="Of what a call returns, as JSON.")
    ] = 100,
    measure_url: Annotated[
        str | None,
        typer.Option(
            "--measure", metavar="URL", help="Take the bytes of an id from this Redis or PostgreSQL."
        ),
    ] = None,
    ids: Annotated[
        int, typer.Option(min=1_000, max=10_000_000, help="How many ids --measure writes there.")
    ] = 100_000,
    *,
    as_json: AsJson = False,
) -> None:
    """Work out memory, disk, writes and nodes for each store and filter, and what to use.

    From bytes an id that were measured. Nodes are of a usual size (Redis 24 GB, PostgreSQL 1 TB), each core half busy, at the
    speeds of the machine dupeproof was measured on; take them for an order of magnitude.
    """
    wanted = demand(rate, window, result_size)
    measured = (
        None if measure_url is None else {_store(measure_url): _measured(measure_url, ids, result_size)}
    )
    made = planned(wanted, measured)
    if as_json:
        say_json(msgspec.to_builtins(made))
    else:
        _show(made)


def _store(url: str) -> str:
    scheme = parse_url(url).scheme.partition("+")[0]
    return {"rediss": "redis", "unix": "redis", "postgres": "postgresql"}.get(scheme, scheme)


def _measured(url: str, ids: int, result_size: int) -> Measured:
    with Progress(console=err) as bars:
        task = bars.add_task("Writing ids", total=2 * ids)
        return measure(url, ids, result_size, lambda count: bars.advance(task, count))


def _show(made: Plan) -> None:
    wanted = made.demand
    say_pairs(
        {
            "new ids": f"{wanted.rate:,.0f} a second, {made.per_month:,.0f} a month",
            "remembered": f"{made.ids:,} at a time",
        }
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("way", "an id", "in all", "nodes", "writes/s", "log/month", "wrong"):
        table.add_column(
            name, justify="left" if name == "way" else "right", no_wrap=name != "way", overflow="fold"
        )
    for each in made.estimates:
        table.add_row(
            each.way,
            f"{each.bytes_per_id:,.0f} B" if each.bytes_per_id >= 10 else f"{each.bytes_per_id:.1f} B",
            f"{_bytes(each.total)} {each.where}",
            f"{each.nodes:,} ({each.by})" if each.nodes > 1 else "1",
            f"{each.iops:,.0f}" if each.iops else "–",
            _bytes(each.month) if each.month else "–",
            f"{each.wrong:.1%}" if each.wrong >= 1e-4 else f"{each.wrong:.0e}" if each.wrong else "never",
        )
    out.print(table)
    say(f"\nUse: {made.layout}\nWhy: {made.why}\nNext limit: {made.next_limit}")


def _bytes(amount: float) -> str:
    for unit in _UNITS:
        if amount < 1_000 or unit == _UNITS[-1]:
            return f"{amount:.3g} {unit}"
        amount /= 1_000
    raise AssertionError
