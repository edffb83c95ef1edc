"""`dupeproof relay`: publish what waits in an outbox, as a service."""

import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from dupeproof import defaults
from dupeproof.cli.output import err, say_json
from dupeproof.cli.publishers import open_publisher
from dupeproof.cli.target import AsJson, Url, chosen, existing
from dupeproof.core.events import Event, Kind
from dupeproof.outbox import Relay
from dupeproof.outbox.policy import AfterDead

_RATE_OVER = 5.0
_ENDS = (signal.SIGINT, signal.SIGTERM)


def relay(
    url: Url = None,
    *,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="URL", help="The same by name; URL wins.", show_default=False),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="amqp://…, kafka://host:9092, redis://…, nats://…, stdout: or python:module.function",
        ),
    ],
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="Messages taken at a time.")
    ] = defaults.RELAY_BATCH,
    poll: Annotated[
        str, typer.Option("--poll", metavar="500ms", help="How often to look.")
    ] = defaults.RELAY_POLL,
    lease: Annotated[
        str,
        typer.Option("--lease", metavar="30s", help="When another relay takes over from one that is gone."),
    ] = defaults.RELAY_LEASE,
    max_attempts: Annotated[
        int, typer.Option("--max-attempts", metavar="N", help="After these a message is dead-lettered.")
    ] = defaults.MAX_ATTEMPTS,
    backoff: Annotated[
        str, typer.Option("--backoff", metavar="1s", help="Wait after a failure, doubled each time.")
    ] = defaults.BACKOFF,
    after_dead: Annotated[
        str, typer.Option("--after-dead", metavar="wait|go_on", help="What its key does then.")
    ] = "wait",
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="7d", help="Keep sent messages for a time.", show_default=False),
    ] = None,
    drain: Annotated[
        str,
        typer.Option("--drain", metavar="10s", help="How long to go on with what is in hand when stopped."),
    ] = defaults.RELAY_DRAIN,
    listen: Annotated[
        bool, typer.Option(help="Be woken by PostgreSQL; --no-listen behind a transaction pooler.")
    ] = True,
    once: Annotated[bool, typer.Option("--once", help="Publish what is due, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Publish messages in order per key, and remove them when they are confirmed. Run as many as you like.

    Ends on SIGTERM or SIGINT, after what it has in hand. Killed, it loses nothing: another one sends it again.
    """
    board = Board()
    chosen_after: AfterDead = after_dead  # type: ignore[assignment]  # the relay checks it
    service = Relay(
        existing(chosen(url or source)),
        publisher=open_publisher(to),
        batch=batch,
        poll=poll,
        lease=lease,
        max_attempts=max_attempts,
        backoff=backoff,
        after_dead=chosen_after,
        keep=keep,
        drain=drain,
        listen=listen,
        events=[_tell_json if as_json else board.hear],
    )
    if once:
        with service:
            service.run_once()
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        service.stop()
        for each, handler in before.items():
            signal.signal(each, handler)  # the second time it ends at once, whatever the publisher does

    before = {each: signal.signal(each, stop) for each in _ENDS}
    try:
        with board.shown(live=not as_json and sys.stderr.isatty()):
            service.run()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class Board:
    """The status line, from the events."""

    def __init__(self) -> None:
        self._sent = self._again = self._failed = self._dead = 0
        self._backlog: int | None = None
        self._lag = 0.0
        self._recent: deque[tuple[float, int]] = deque()

    def hear(self, event: Event) -> None:
        match event.kind:
            case Kind.SENT:
                self._sent += event.count
                self._lag = event.seconds or 0.0
                self._recent.append((time.monotonic(), event.count))
            case Kind.SENT_AGAIN:
                self._again += event.count
            case Kind.FAILED:
                self._failed += 1
            case Kind.DEAD:
                self._dead += 1
            case Kind.BACKLOG:
                self._backlog = event.count
            case _:
                pass

    @contextmanager
    def shown(self, *, live: bool) -> Iterator[None]:
        if live:
            with Live(get_renderable=self.line, console=err, refresh_per_second=4, transient=True):
                yield
        else:
            yield
        err.print(self.line())

    def line(self) -> Text:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - _RATE_OVER:
            self._recent.popleft()
        rate = sum(count for _, count in self._recent) / _RATE_OVER
        backlog = "?" if self._backlog is None else f"{self._backlog:,}"
        return Text(
            f"sent {self._sent:,} ({rate:,.0f}/s) · lag {self._lag:.3f} s · backlog {backlog} · "
            f"again {self._again:,} · failed {self._failed:,} · dead {self._dead:,}"
        )


def _tell_json(event: Event) -> None:
    say_json(
        {"event": event.kind, "count": event.count, "seconds": event.seconds, "topic": event.name or None}
    )
