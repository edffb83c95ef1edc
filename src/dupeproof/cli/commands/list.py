"""`dupeproof list`: the keys in one state, such as those that are held."""

from typing import Annotated, Any

import typer

from dupeproof import Entry, Once
from dupeproof.cli.output import progress, say, say_json, table
from dupeproof.cli.target import SHOWN_DIGITS, AsJson, Url, chosen, existing
from dupeproof.guards.listings import EVERY_NAMESPACE


def list_keys(
    url: Url = None,
    *,
    state: Annotated[str, typer.Option("--state", help="held, dead, failed, running or abandoned.")] = "held",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Of this namespace only; * is every one.")
    ] = EVERY_NAMESPACE,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.")] = 100,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first, not the oldest.")] = False,
    as_json: AsJson = False,
) -> None:
    """List keys by state, the oldest first: what is held or dead, by an index; the others by a walk over the store.

    The digits in the first column stand for the key in `show`, `resolve` and `forget`, and are those of the log. The key
    itself is shown where its guard keeps keys.
    """
    with Once(existing(chosen(url))) as once, progress("records looked at", quiet=as_json) as looked_at:
        found = list(
            once.entries(state, namespace=namespace, limit=limit, newest_first=newest, progress=looked_at)
        )
    if as_json:
        say_json([_facts(entry) for entry in found])
    elif not found:
        say(f"no key is {state}")
    else:
        table(("digest", "namespace", "function", "since", "attempts", "error", "key"), map(_row, found))


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "digest": entry.digest,
        "key": entry.key,
        "state": entry.state,
        "namespace": entry.namespace,
        "name": entry.name,
        "since": entry.since,
        "attempts": entry.attempts,
        "error": entry.error,
    }


def _row(entry: Entry) -> tuple[str, ...]:
    return (
        entry.digest[:SHOWN_DIGITS],
        entry.namespace,
        entry.name,
        "" if entry.since is None else f"{entry.since:%Y-%m-%d %H:%M:%S}",
        str(entry.attempts),
        entry.error or "",
        entry.key or "",
    )
