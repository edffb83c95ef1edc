"""`dupeproof purge`: remove what has expired, once or as a service."""

import signal
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dupeproof import defaults
from dupeproof.cleanup import Purger
from dupeproof.cleanup.purger import open_purgeable
from dupeproof.cli.output import err, say, say_json, size
from dupeproof.cli.target import AsJson, Url, chosen, existing
from dupeproof.core.events import Event, Kind
from dupeproof.core.plurals import counted
from dupeproof.core.protocols import Purgeable


def purge(
    url: Url = None,
    *,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="15m", help="Go on as a service, one pass every so often."),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="Rows per transaction.")
    ] = defaults.PURGE_BATCH,
    as_json: AsJson = False,
) -> None:
    """Remove expired records and marks in small transactions. Nothing unexpired is ever removed.

    It may be interrupted anywhere and run next to the application. With --every it ends on SIGINT or SIGTERM.
    """
    with closing(open_purgeable(existing(chosen(url)))) as store:
        if every is None:
            _pass(store, batch, as_json=as_json)
        else:
            _serve(store, every, batch, as_json=as_json)


def _pass(store: Purgeable, batch: int, *, as_json: bool) -> None:
    purger = Purger(store, batch=batch)
    columns = TextColumn("purging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("purging", total=None)

        def progress(removed: int) -> None:
            # Counting reads the whole store, so it is left until there is a second batch to wait for.
            if bar.tasks[task].total is None and removed >= batch:
                bar.update(task, total=removed + store.stats().expired)
            bar.update(task, completed=removed)

        report = purger.run_once(progress)
    facts: dict[str, Any] = msgspec.to_builtins(report)
    del facts["lag"]  # there is no pass of before to count from
    left = store.stats() if report.removed else None
    if left is not None:
        facts |= {"expired": left.expired, "bytes": left.bytes}
    if as_json:
        say_json(facts)
        return
    text = f"removed {report.removed:,} in {counted(report.batches, 'batch', 'batches')} and {report.seconds:.2f} s"
    if left is not None and left.bytes is not None:
        text += f"; the store now has {size(left.bytes)}"
    say(text)


def _serve(store: Purgeable, every: str, batch: int, *, as_json: bool) -> None:
    def tell(event: Event) -> None:
        if as_json:
            facts = {"event": event.kind, "count": event.count, "seconds": event.seconds, "lag": event.lag}
            say_json(facts)
        elif event.kind is Kind.PURGED:
            say(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} removed {event.count:,} in {event.seconds:.2f} s")

    purger = Purger(store, every=every, batch=batch, events=[tell])
    # Blocked here and so in the thread as well: the signal waits for sigwait instead of breaking into a batch.
    ends = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        with purger:
            signal.sigwait(ends)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
