"""A consumer as a process of its own, to be killed: `python -m dupeproof.cli.torture.worker`."""

import asyncio
import json
import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, to_builtins

from dupeproof import Inbox
from dupeproof.brokers._async.consumer import AsyncConsumer
from dupeproof.brokers.base import UNGUARDED
from dupeproof.brokers.consuming import AnyConsumer, make_consumer
from dupeproof.brokers.options import ConsumeOptions
from dupeproof.cli.torture.ledger import Ledger
from dupeproof.cli.torture.link import Link
from dupeproof.cli.torture.pipes import AsyncPipeSource, PipeSource
from dupeproof.errors import ConfigError
from dupeproof.outbox.failures import described

CONFIG = "DUPEPROOF_TORTURE_WORKER"
"""The environment variable that holds what a worker is to do; it has URLs in it."""
_TELL_SECONDS = 0.1


class Config(Struct, frozen=True):
    module: str | None
    """Of the broker; None for a pipe."""
    url: str
    queue: str
    """Of this run alone, and so the name of its group: marks of an earlier run are not taken for its own."""
    database: str
    handler: str | None
    """Of the user, as module:function."""
    options: dict[str, Any]


def load(name: str, what: str) -> Any:
    """What `module:function` names, found from the working folder."""
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise ConfigError(f"{what} takes module:function, such as myapp:handle; got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), function, None)
    except Exception as exc:
        if isinstance(exc, ModuleNotFoundError) and f"{module}.".startswith(f"{exc.name}."):
            raise ConfigError(f"{what}: there is no module {module} in {here}") from exc
        raise ConfigError(f"{what}: {module} cannot be imported: {described(exc)}") from exc
    if found is None:
        raise ConfigError(f"{what}: {module} has no {function}")
    if not callable(found):
        raise ConfigError(f"{what}: {name} is not a function")
    return found


def main(text: str) -> None:
    config, link = Config(**json.loads(text)), Link()
    consumer = _consumer(config, link)
    threading.Thread(target=_tell, args=(consumer, link), daemon=True).start()
    link.say({"ready": True})
    if isinstance(consumer, AsyncConsumer):
        asyncio.run(consumer.run())
    else:
        consumer.run()
    link.say({"tally": to_builtins(consumer.tally)})


def _consumer(config: Config, link: Link) -> AnyConsumer:
    inbox, once = None, None
    if config.handler is None:
        handler: Any = Ledger(config.database).write
        inbox = Inbox(config.queue, window="1d", database=config.database)
    else:
        handler, once = load(config.handler, "--handler"), UNGUARDED
    if config.module is None:
        return make_consumer(
            lambda: PipeSource(link),
            lambda: AsyncPipeSource(link),
            handler,
            config.queue,
            inbox,
            once,
            cast("ConsumeOptions", config.options),
        )
    made: AnyConsumer = import_module(config.module).consumer(
        config.url, config.queue, handler, inbox=inbox, once=once, **config.options
    )
    return made


def _tell(consumer: AnyConsumer, link: Link) -> None:
    """What it has done so far, now and then."""
    told = None
    while True:
        now = to_builtins(consumer.tally)
        if now != told:
            link.say({"tally": now})
            told = now
        time.sleep(_TELL_SECONDS)


if __name__ == "__main__":
    main(os.environ[CONFIG])
