"""`dupeproof settle`: ask the other side about held keys."""

import threading
from typing import Annotated

import msgspec
import typer

from dupeproof import Once, defaults
from dupeproof.cli.output import report
from dupeproof.cli.target import AsJson, after_url, imported
from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError


def settle(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[URL] MODULE:LOOKUP", help="The store, and the function to ask.", show_default=False
        ),
    ] = None,
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Of this namespace; * is every one.")
    ] = defaults.NAMESPACE,
    name: Annotated[
        str | None, typer.Option("--name", help="Of this function only.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="How many keys at most.", show_default=False)
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", help="Again and again, with this pause.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a function of yours about every held key, and settle what it knows.

    Ask a lookup only about what it knows: it is given the keys of one namespace, and with --name those of one function.
    `lookup(entry)` is given an entry with `.digest`, `.name`, `.since` and, where its guard keeps keys, `.key`. It gives
    `dupeproof.Done(value)`, `NotDone()` or `Unknown()`. Each key is owned while it is asked about.
    """
    url, rest = after_url(words)
    if len(rest) != 1:
        raise ConfigError("which lookup? Give it after the URL, as shop.payments:lookup")
    lookup = imported(rest[0])
    pause = None if every is None else milliseconds(every, name="--every") / 1_000
    with Once(url) as once:
        while True:
            settled = once.settle(lookup, namespace=namespace, name=name, limit=limit)
            facts = msgspec.structs.asdict(settled)
            report(
                f"{settled.done} done, {settled.not_done} may run again, {settled.unknown} unknown, "
                f"{settled.failed} failed",
                facts,
                as_json=as_json,
            )
            if pause is None:
                return
            threading.Event().wait(pause)
