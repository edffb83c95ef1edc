"""`dupeproof stats`: what a store holds."""

from contextlib import closing

import msgspec

from dupeproof.cli.output import say_json, say_pairs, size
from dupeproof.cli.target import AsJson, Url, chosen, opened
from dupeproof.stores.urls import redact


def stats(url: Url = None, *, as_json: AsJson = False) -> None:
    """Count what the store holds: marks, records by state, and what has expired and waits for a purge.

    This reads the whole store; it locks nothing.
    """
    with closing(opened(url)) as store:
        found = store.stats()
    shown = redact(chosen(url))
    if as_json:
        say_json({"store": shown, **msgspec.to_builtins(found)})
        return
    pairs: dict[str, object] = {"store": shown, "marks": found.marks}
    pairs |= {f"records {state}": count for state, count in sorted(found.records.items())}
    if found.inbox:
        pairs["inbox"] = found.inbox
    pairs["expired, to be purged"] = found.expired
    if found.bytes is not None:
        pairs["size"] = size(found.bytes)
    say_pairs(pairs)
