"""`dupeproof show`: one key as it stands."""

from typing import Annotated, Any

import msgspec
import typer

from dupeproof import Once, defaults
from dupeproof.cli.output import say_json, say_pairs
from dupeproof.cli.target import (
    SHOWN_DIGITS,
    AsJson,
    KeyAfterUrl,
    Namespace,
    UrlOrKey,
    known_entry,
    url_and_key,
)
from dupeproof.guards.results import Entry


def show(
    first: UrlOrKey = None,
    second: KeyAfterUrl = None,
    *,
    namespace: Namespace = defaults.NAMESPACE,
    result: Annotated[bool, typer.Option("--result", help="Print the stored value too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is known of a key: its state, attempts, times. The stored value only with --result.

    Exit code 1 when nothing is known.
    """
    url, key = url_and_key(first, second)
    with Once(url, namespace=namespace) as once:
        entry = known_entry(once, key)
    facts: dict[str, Any] = {
        "state": entry.state,
        "namespace": entry.namespace,
        "digest": entry.digest[:SHOWN_DIGITS],
    }
    facts |= _facts(entry)
    if result and entry.state == "done":
        facts["result"] = entry.result
    if as_json:
        say_json(facts)
        return
    if result and entry.state == "done":
        facts["result"] = msgspec.json.encode(entry.result).decode()
    say_pairs({name.replace("_", " "): value for name, value in facts.items()})


def _facts(entry: Entry) -> dict[str, Any]:
    """What there is to say; the stored value by its size alone."""
    facts = {
        "key": entry.key,
        "name": entry.name or None,
        "since": entry.since,
        "attempts": entry.attempts or None,
        "steps": entry.steps or None,
        "created_at": entry.created_at,
        "finished_at": entry.finished_at,
        "expires_at": entry.expires_at,
        "lease_left": entry.lease_left,
        "error": entry.error,
        "meta": entry.meta,
        "codec": entry.codec,
        "result_bytes": None if entry.stored is None else len(entry.stored),
    }
    return {name: value for name, value in facts.items() if value is not None}
