"""Events as log lines that programs can read."""

import json
import logging

from dupeproof.core.events import Event, Kind, logger

LEVELS = {
    Kind.HELD: logging.WARNING,
    Kind.ON_HOLD: logging.WARNING,
    Kind.DEAD: logging.ERROR,
    Kind.LOST: logging.WARNING,
    Kind.MISMATCH: logging.WARNING,
    Kind.ABANDONED: logging.WARNING,
    Kind.TOOK_OVER: logging.WARNING,
    Kind.NOT_REPLAYABLE: logging.WARNING,
    Kind.STORE_DOWN: logging.ERROR,
    Kind.PUBLISHER_DOWN: logging.ERROR,
    Kind.FAILED: logging.WARNING,
    Kind.LATE: logging.WARNING,
}
"""What a person on call may have to look at; everything else is INFO."""


class LogListener:
    """One line of JSON per event; the fields also stand in the record, under `dupeproof`. Keys are digests, as everywhere."""

    wants_store_calls = False

    def __init__(self, to: logging.Logger = logger) -> None:
        self._logger = to

    def __call__(self, event: Event) -> None:
        level = LEVELS.get(event.kind, logging.INFO)
        if not self._logger.isEnabledFor(level):
            return
        fields = {
            name: value
            for name, value in (
                ("event", str(event.kind)),
                ("namespace", event.namespace),
                ("name", event.name),
                ("key", event.key),
                ("attempt", event.attempt),
                ("count", event.count if event.count != 1 else 0),
                ("seconds", event.seconds),
                ("lag", event.lag),
            )
            if value
        }
        self._logger.log(level, "%s", json.dumps(fields), extra={"dupeproof": fields})
