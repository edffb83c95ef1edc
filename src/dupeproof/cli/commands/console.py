"""`dupeproof console`: a page to watch and mend by."""

import logging
import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from dupeproof.cli.output import report
from dupeproof.cli.target import AsJson, Url, chosen, existing, imported
from dupeproof.errors import ConfigError

TOKEN = "DUPEPROOF_CONSOLE_TOKEN"  # noqa: S105 - the name of a variable
USERS = "DUPEPROOF_CONSOLE_USERS"
_HOST = "127.0.0.1"


def console(
    url: Url = None,
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Where to listen; 0 for any free one.")] = 8642,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where inbox and outbox are, if not in the store.", show_default=False
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help=f"Lets whoever signs in with it change something. Better set as {TOKEN}: others see your arguments.",
            show_default=False,
        ),
    ] = None,
    users: Annotated[
        list[str] | None,
        typer.Option(
            "--user",
            metavar="NAME=TOKEN",
            help="A person who may change something, and their token; may be given again. Better one to a line in "
            f"--users-file, or in {USERS}: others see your arguments.",
        ),
    ] = None,
    users_file: Annotated[
        Path | None,
        typer.Option(
            "--users-file", help="A file with a line NAME=TOKEN for each person.", show_default=False
        ),
    ] = None,
    settle: Annotated[
        str | None,
        typer.Option(
            "--settle",
            metavar="MODULE:LOOKUP",
            help="A function to ask about held keys, as `dupeproof settle` takes it.",
            show_default=False,
        ),
    ] = None,
    show_results: Annotated[bool, typer.Option("--show-results", help="Show stored results.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a page on this machine: what needs a person, keys by state, one key, late duplicates, the outbox.

    Only this machine can reach it. Without a token nothing can be changed; every change is confirmed, and written to the
    audit on standard error with the name of the person. Ends on Ctrl-C or SIGTERM.
    """
    try:
        import uvicorn  # noqa: PLC0415 - an extra

        from dupeproof.console import ConsoleApp  # noqa: PLC0415 - an extra
        from dupeproof.console.shield import LOOPBACK  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise ConfigError(f'the console needs {exc.name}; run: pip install "dupeproof[console]"') from exc
    app = ConsoleApp(
        existing(chosen(url)),
        database=None if database is None else existing(database),
        token=token or os.environ.get(TOKEN) or None,
        users=_users(users or [], users_file),
        settle=None if settle is None else imported(settle),
        show_results=show_results,
        hosts=LOOPBACK,
    )
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("dupeproof.audit").setLevel(logging.INFO)
    try:
        listening = socket.create_server((_HOST, port))
    except OSError as exc:
        raise ConfigError(
            f"port {port} cannot be had ({exc.strerror}); choose another with --port, or 0 for any"
        ) from exc
    with listening:
        address = f"http://{_HOST}:{listening.getsockname()[1]}/"
        report(address, {"url": address}, as_json=as_json)
        # No access log: it would hold nothing that the audit does not.
        config = uvicorn.Config(
            app, access_log=False, log_level="warning", server_header=False, proxy_headers=False
        )
        try:
            uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:
            return


def _users(typed: list[str], file: Path | None) -> dict[str, str]:
    """Tokens by name, of all that were given."""
    lines = [*typed, *os.environ.get(USERS, "").splitlines()]
    if file is not None:
        try:
            lines += file.read_text().splitlines()
        except OSError as exc:
            raise ConfigError(f"--users-file {file} cannot be read: {exc.strerror}") from exc
        except UnicodeDecodeError:
            raise ConfigError(
                f"--users-file {file} is not text in UTF-8"
            ) from None  # the cause would show it
    users: dict[str, str] = {}
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, token = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise ConfigError(
                "each user of the console is a line NAME=TOKEN; one of them has no name or no '='"
            )
        if name in users:
            raise ConfigError(f"the user {name} of the console is given twice")
        users[name] = token
    return users
