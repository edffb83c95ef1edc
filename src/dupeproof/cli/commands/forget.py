"""`dupeproof forget`: make a key new again."""

from typing import Annotated

import typer

from dupeproof import ConfigError, Once, defaults
from dupeproof.cli.output import NotFound, report
from dupeproof.cli.target import UNKNOWN, AsJson, KeyAfterUrl, Namespace, UrlOrKey, known_entry, url_and_key


def forget(
    first: UrlOrKey = None,
    second: KeyAfterUrl = None,
    *,
    namespace: Namespace = defaults.NAMESPACE,
    may_run_again: Annotated[
        bool,
        typer.Option(
            "--yes-it-may-run-again", help="Forget a held key all the same: its work may happen twice."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a key's record and mark: the next message or call with it runs. An owner still at work is refused later.

    A held key is one whose work may have happened. To forget it takes --yes-it-may-run-again; `resolve` or `settle` is
    mostly what is wanted. Exit code 1 when nothing was known.
    """
    url, key = url_and_key(first, second)
    with Once(url, namespace=namespace) as once:
        entry = known_entry(once, key)
        if entry.state == "held" and not may_run_again:
            raise ConfigError(
                "this key is held, because its work may have happened; resolve it, or forget it with "
                "--yes-it-may-run-again"
            )
        if not once.forget(entry):
            raise NotFound(UNKNOWN.format(namespace))
    report("forgotten", {"forgotten": True}, as_json=as_json)
