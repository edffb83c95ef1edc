"""`dupeproof exporter`: what stores hold, as metrics for Prometheus."""

import logging
import signal
import threading
from contextlib import closing
from typing import Annotated

import typer

from dupeproof import defaults
from dupeproof.cli.output import report
from dupeproof.cli.target import AsJson, chosen, existing

_ENDS = (signal.SIGINT, signal.SIGTERM)


def exporter(
    urls: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="URL", help="The stores; as for other commands where left out.", show_default=False
        ),
    ] = None,
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Where to listen; 0 for any free one.")
    ] = defaults.EXPORTER_PORT,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="On which address; 0.0.0.0 for every one of this machine.")
    ] = "127.0.0.1",
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="A store is read at most once in this time.")
    ] = defaults.EXPORTER_INTERVAL,
    timeout: Annotated[
        str,
        typer.Option(metavar="DURATION", help="After which a store that does not answer is shown as down."),
    ] = defaults.EXPORTER_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Serve /metrics: keys that are held, dead or running, and what waits in the outbox. /healthz says that it is up.

    Each store is read when Prometheus asks, by an index or a sample, however large it is. Of one that does not answer,
    dupeproof_store_up is 0 and nothing else is shown. Ends on Ctrl-C or SIGTERM.
    """
    from dupeproof.exporter import StoreCollector  # noqa: PLC0415 - an extra
    from dupeproof.exporter.server import new_registry, serve_metrics  # noqa: PLC0415 - an extra

    registry = new_registry()
    found = [existing(url) for url in urls or [chosen(None)]]
    ended = threading.Event()
    before = {each: signal.signal(each, lambda *_: ended.set()) for each in _ENDS}
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
    try:
        collector = StoreCollector(*found, registry=registry, interval=interval, timeout=timeout)
        with closing(collector), serve_metrics(registry, port=port, host=host) as address:
            report(address, {"url": address}, as_json=as_json)
            ended.wait()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
