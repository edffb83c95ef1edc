"""What `dupeproof relay --to` can publish to: a word before the colon, and what makes a publisher of the rest."""

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from dupeproof.errors import ConfigError
from dupeproof.outbox.messages import Message
from dupeproof.stores.urls import redact


def _to_stdout(_: str) -> Callable[[Message], None]:
    def write(message: Message) -> None:
        """One line of JSON. The payload as it is if it is JSON, else in base64."""
        try:
            payload: Any = msgspec.Raw(message.payload) if message.json() is not None else None
        except msgspec.DecodeError:
            payload = message.payload
        fields = {"id": message.id, "topic": message.topic, "key": message.key, "type": message.type}
        line = msgspec.json.encode({**fields, "headers": message.headers, "payload": payload})
        sys.stdout.write(line.decode() + "\n")
        sys.stdout.flush()

    return write


def _to_python(name: str) -> Any:
    module, dot, function = name.rpartition(".")
    if not dot or not function:
        raise ConfigError(f"write --to python:module.function; got python:{name}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does; an installed command is not started from where one is
    try:
        return getattr(import_module(module), function)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{module}.".startswith(f"{exc.name}."):
            raise
        raise ConfigError(
            f"there is no module {module}; start where it can be imported, or install it"
        ) from exc
    except AttributeError as exc:
        raise ConfigError(f"{module} has no {function}; write --to python:module.function") from exc


TARGETS: dict[str, Callable[[str], Any]] = {"stdout": _to_stdout, "python": _to_python}


def open_target(text: str, *, beside: Iterable[str] = ()) -> Any:
    """The publisher that a text such as `stdout:` or `python:shop.publish` names; `beside` is what else there is."""
    word, colon, rest = text.partition(":")
    if not colon or word not in TARGETS:
        known = ", ".join([*beside, *(f"{each}:" for each in TARGETS)])
        raise ConfigError(f"{redact(text)!r} is nothing to publish to; there are {known}")
    return TARGETS[word](rest)
