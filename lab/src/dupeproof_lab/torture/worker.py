"""A consumer, or the relay, as a process of its own, to be killed: `python -m dupeproof_lab.torture.worker`."""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct, to_builtins

from dupeproof import AsyncInbox, Inbox
from dupeproof.brokers.base import UNGUARDED
from dupeproof.brokers.consumer_async import AsyncConsumer
from dupeproof.brokers.factory import AnyConsumer, make_consumer
from dupeproof.brokers.options import ConsumeOptions
from dupeproof.core.callables import is_async
from dupeproof.errors import ConfigError
from dupeproof.outbox.failures import described
from dupeproof_lab.torture.ledger import Ledger
from dupeproof_lab.torture.link import Link
from dupeproof_lab.torture.pipes import AsyncPipeSource, PipePublisher, PipeSource
from dupeproof_lab.torture.probe import Probe
from dupeproof_lab.torture.relay import relay

CONFIG = "DUPEPROOF_TORTURE_WORKER"
"""The environment variable that holds what a worker is to do; it has URLs in it."""
_TELL_SECONDS = 0.1


class Config(Struct, frozen=True, kw_only=True):
    role: Literal["consumer", "relay"]
    module: str | None
    """Of the broker; None for a pipe."""
    publisher: str | None
    """The name of its publisher there."""
    url: str
    queue: str
    """Of this run alone, and so the name of its group: marks of an earlier run are not taken for its own."""
    database: str
    handler: str | None
    """Of the user, as module:function."""
    tasks: bool
    """Whether our own handler is a coroutine function."""
    locks: bool
    """Whether our own handler locks the key, where its order counts."""
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
    probe = Probe(link, tells_calls=config.handler is not None)
    if config.role == "relay":
        _relay(config, link, probe)
    else:
        _consume(config, link, probe)


def _relay(config: Config, link: Link, probe: Probe) -> None:
    publisher: Any = PipePublisher(link)
    if config.module is not None and config.publisher is not None:
        publisher = getattr(import_module(config.module), config.publisher)(config.url)
    made = relay(config.database, publisher, link, probe)
    signal.signal(signal.SIGTERM, lambda *_: made.stop())
    link.start(probe.obey)
    link.say({"ready": True})
    made.run()


def _consume(config: Config, link: Link, probe: Probe) -> None:
    consumer = _consumer(config, link, probe)
    link.start(probe.obey)
    threading.Thread(target=_tell, args=(consumer, link), daemon=True).start()
    link.say({"ready": True})
    if isinstance(consumer, AsyncConsumer):
        asyncio.run(consumer.run())
    else:
        consumer.run()
    link.say({"tally": to_builtins(consumer.tally)})


def _consumer(config: Config, link: Link, probe: Probe) -> AnyConsumer:
    inbox: Any = None
    once: Any = None
    if config.handler is None:
        ledger, kind = Ledger(config.database, locks=config.locks), AsyncInbox if config.tasks else Inbox
        handler: Any = ledger.write_async if config.tasks else ledger.write
        inbox = kind(config.queue, window="1d", database=config.database)
    else:
        handler, once = load(config.handler, "--handler"), UNGUARDED
    options = {
        **config.options,
        "id_of": probe.id_of,
        "middleware": [probe.around_async if is_async(handler) else probe.around],
    }
    if config.module is None:
        return make_consumer(
            lambda: PipeSource(link),
            lambda: AsyncPipeSource(link),
            handler,
            config.queue,
            inbox,
            once,
            cast("ConsumeOptions", options),
        )
    made: AnyConsumer = import_module(config.module).consumer(
        config.url, config.queue, handler, inbox=inbox, once=once, **options
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
