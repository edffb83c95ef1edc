"""`dupeproof resolve`: close a held, abandoned, failed or dead key by hand."""

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dupeproof import ConfigError, Once, defaults
from dupeproof.cli.output import NotFound, report
from dupeproof.cli.target import AsJson, KeyAfterUrl, Namespace, UrlOrKey, known_entry, url_and_key
from dupeproof.http.answers import Answer, AnswerCodec

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset({"content-length", "transfer-encoding", "connection"})
_NOTHING = {
    True: "there is nothing to reopen: the key is done or was resolved, or was only seen; forget removes it for good",
    False: "there is nothing to resolve: the key is done, or was only seen",
}
_TEXT = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def resolve(
    first: UrlOrKey = None,
    second: KeyAfterUrl = None,
    *,
    namespace: Namespace = defaults.NAMESPACE,
    result: Annotated[
        str | None,
        typer.Option(
            "--result",
            metavar="JSON",
            help="What later callers are given, as JSON.",
            show_default=False,
        ),
    ] = None,
    no_result: Annotated[
        bool, typer.Option("--no-result", help="It was done and has no value: later callers are given null.")
    ] = False,
    status: Annotated[
        int | None,
        typer.Option(
            "--status",
            help="For a key of the HTTP guard: the status of the response that later requests are given.",
            show_default=False,
        ),
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="NAME: VALUE", help="A header of that response; may be given again."
        ),
    ] = None,
    body_file: Annotated[
        Path | None,
        typer.Option("--body-file", help="The file that has the body of that response.", show_default=False),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            help="How long the key is remembered from now; as its guard has it where left out.",
            show_default=False,
        ),
    ] = None,
    reopen: Annotated[bool, typer.Option("--reopen", help="It was not done: let it run again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say that the work of a key was done, with this result, or with --reopen that it was not.

    Look first whether the effect really happened. Either way its former owner can no longer finish it. A key that is
    being worked on is refused. A result that no caller has been given yet may be replaced. Exit code 1 when there is nothing to resolve.

    A key of the HTTP guard, in namespace http unless that was given another, gets the response that its clients are
    sent: --status 201 --header 'Location: /orders/7' --body-file order.json, or --result, which is sent as JSON with 200.
    """
    url, key = url_and_key(first, second)
    response = _response(status, headers or [], body_file)
    given = [reopen, result is not None, no_result, response is not None]
    if sum(given) > 1:
        raise ConfigError("--result, --no-result, --status and --reopen exclude each other; give one of them")
    if not any(given):
        raise ConfigError(
            "say what became of the work: --result JSON or --no-result if it was done, --reopen if it was not; "
            "--status for a key of the HTTP guard"
        )
    value = response or (None if result is None else _value(result))
    codec = None if response is None else AnswerCodec()
    with Once(url, namespace=namespace, codec=codec) as once:
        entry = known_entry(once, key)
        if not (once.reopen(entry) if reopen else once.resolve(entry, result=value, window=window)):
            raise NotFound(_NOTHING[reopen])
    done = "reopened" if reopen else "resolved"
    report(done, {done: True}, as_json=as_json)


def _response(status: int | None, headers: list[str], body_file: Path | None) -> Answer | None:
    if status is None:
        if headers or body_file is not None:
            raise ConfigError(
                "--header and --body-file belong to --status; say which status the response has"
            )
        return None
    if not 200 <= status <= 599:
        raise ConfigError(f"--status is the status of a response, from 200 to 599; got {status}")
    try:
        body = b"" if body_file is None else body_file.read_bytes()
    except OSError as exc:
        raise ConfigError(f"--body-file cannot be read: {exc.strerror}") from exc
    pairs = [(b"content-length", b"%d" % len(body))]
    for header in headers:
        name, colon, text = header.partition(":")
        if not colon or not _NAME.fullmatch(name) or not _TEXT.fullmatch(text):
            raise ConfigError(
                f"--header is a name, a colon and a value, such as 'Location: /orders/7'; got {header!r}"
            )
        if name.lower() in _OURS:
            raise ConfigError(f"--header {name} is set by the server; leave it away")
        pairs.append((name.lower().encode(), text.strip().encode("latin-1")))
    return Answer(status, pairs, body)


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise ConfigError(
            f"--result is not JSON ({exc}); a text needs its quotes: --result '\"paid\"'"
        ) from exc
