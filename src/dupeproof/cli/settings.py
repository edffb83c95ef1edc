"""`dupeproof.toml`: what need not be typed each time. What is typed wins, then the environment, then the file.

url = "postgresql://app@localhost/shop"
namespace = "billing"

[doctor]                  # a table for each command, with its options as in --help
window = "24h"
"""

import os
import tomllib
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from msgspec import Struct

from dupeproof.errors import ConfigError

FILE = "dupeproof.toml"
FILE_VARIABLE = "DUPEPROOF_CONFIG"
URL_VARIABLE = "DUPEPROOF_URL"
NAMESPACE_VARIABLE = "DUPEPROOF_NAMESPACE"
_SHARED = ("url", "namespace")
LAB = ("bench", "demo", "torture")
"""Commands of dupeproof-lab, which is loaded for them only. Their tables may be in the file all the same."""


class Settings(Struct, frozen=True):
    url: str | None = None
    defaults: dict[str, Any] = {}
    """Of the options, by command."""


current: ContextVar[Settings] = ContextVar("settings", default=Settings())  # noqa: B039 - frozen
json_wanted: ContextVar[bool] = ContextVar("json_wanted", default=False)


def read(path: Path | None, group: Any) -> Settings:
    """The settings of the file given, else of the one the environment names, else of `dupeproof.toml` if it is here."""
    named = path or (Path(os.environ[FILE_VARIABLE]) if os.environ.get(FILE_VARIABLE) else None)
    file = named or Path(FILE)
    if named is None and not file.is_file():
        return Settings()
    try:
        tables = tomllib.loads(file.read_text())
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{file} is not TOML: {exc}") from None  # the cause would show the text
    shared = {name: tables.pop(name) for name in _SHARED if name in tables}
    for name, value in shared.items():
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{file}: {name} must be a text")
    known = {name: table for name, table in tables.items() if name in group.commands or name not in LAB}
    return Settings(shared.get("url"), _defaults(group, known, shared, str(file)))


def _defaults(group: Any, tables: Mapping[str, Any], shared: Mapping[str, str], where: str) -> dict[str, Any]:
    """For each command what its table says, under the names click has for it; unknown ones are refused."""
    for name, table in tables.items():
        if name not in group.commands:
            known = ", ".join([*_SHARED, *group.commands])
            raise ConfigError(f"{where} has {name!r}; there are: {known}")
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: {name} must be a table: [{name}]")
    return {
        name: _defaults(command, tables.get(name, {}), shared, f"{where}, [{name}]")
        if hasattr(command, "commands")
        else _options(command, tables.get(name, {}), shared, f"{where}, [{name}]")
        for name, command in group.commands.items()
    }


def _options(
    command: Any, table: Mapping[str, Any], shared: Mapping[str, str], where: str
) -> dict[str, object]:
    options = {
        opt.removeprefix("--"): parameter.name
        for parameter in command.params
        for opt in parameter.opts
        if opt.startswith("--")
    }
    for name in table:
        if name not in options:
            raise ConfigError(f"{where} has {name!r}; there are: {', '.join(sorted(options))}")
    common = {"namespace": shared["namespace"]} if {"namespace"} <= options.keys() & shared.keys() else {}
    return common | {options[name]: value for name, value in table.items()}
