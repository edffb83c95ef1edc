"""`dupeproof resolve`: close a held, abandoned, failed or dead key by hand."""

from typing import Annotated, Any

import msgspec
import typer

from dupeproof import ConfigError, Once
from dupeproof.cli.output import NotFound, report
from dupeproof.cli.target import AsJson, KeyAfterUrl, Namespace, UrlOrKey, url_and_key


def resolve(
    first: UrlOrKey = None,
    second: KeyAfterUrl = None,
    *,
    namespace: Namespace = "default",
    result: Annotated[
        str | None,
        typer.Option(
            "--result",
            metavar="JSON",
            help="What later callers are given, as JSON; null unless given.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[str, typer.Option("--window", help="How long the key is remembered from now.")] = "24h",
    reopen: Annotated[bool, typer.Option("--reopen", help="It was not done: let it run again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say that the work of a key was done, with this result, or with --reopen that it was not.

    Look first whether the effect really happened. Either way its former owner can no longer finish it. A key that is
    being worked on is refused. Exit code 1 when there is nothing to resolve.
    """
    url, key = url_and_key(first, second)
    if reopen and result is not None:
        raise ConfigError(
            "--result says that the work was done, and --reopen that it was not; give one of them"
        )
    value = None if result is None else _value(result)
    with Once(url, namespace=namespace, window=window) as once:
        if not (once.reopen(key) if reopen else once.resolve(key, result=value)):
            raise NotFound(
                f"there is nothing to resolve: the key is unknown or done in namespace {namespace}"
            )
    done = "reopened" if reopen else "resolved"
    report(done, {done: True}, as_json=as_json)


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise ConfigError(
            f"--result is not JSON ({exc}); a text needs its quotes: --result '\"paid\"'"
        ) from exc
