"""`dupeproof console`: a page to watch and mend by."""

import logging
import os
import socket
from typing import Annotated

import typer

from dupeproof.cli.output import report
from dupeproof.cli.target import AsJson, Url, chosen, existing
from dupeproof.errors import ConfigError

TOKEN = "DUPEPROOF_CONSOLE_TOKEN"  # noqa: S105 - the name of a variable
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
    show_results: Annotated[bool, typer.Option("--show-results", help="Show stored results.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a page on this machine: what the store holds, its health, one key, late duplicates, the outbox.

    Only this machine can reach it. Without a token nothing can be changed; every change is confirmed, and written to the
    audit on standard error. Ends on Ctrl-C or SIGTERM.
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
