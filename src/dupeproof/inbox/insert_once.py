"""INSERT into a table of the user's, where a row with the same business key makes it nothing."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from dupeproof.errors import ConfigError, KeyMissing
from dupeproof.sql.statements import Dialect

_NAME = re.compile(r"[A-Za-z_]\w{0,127}", re.ASCII)


class Insertion(Struct, frozen=True):
    """`:v0` and so on are the values in their order."""

    table: str
    values: Mapping[str, Any]
    key: Sequence[str]

    @property
    def parameters(self) -> dict[str, Any]:
        return {f"v{n}": value for n, value in enumerate(self.values.values())}

    def statement(self, dialect: Dialect) -> str:
        quoted = _quoting(dialect)
        columns = ", ".join(map(quoted, self.values))
        places = ", ".join(f":v{n}" for n in range(len(self.values)))
        text = f"INSERT INTO {self._table(dialect)} ({columns}) VALUES ({places})"  # noqa: S608
        if dialect == "mysql":
            return text  # INSERT IGNORE would hide other errors too
        conflict = ", ".join(map(quoted, self.key))
        return f"{text} ON CONFLICT ({conflict}) DO NOTHING RETURNING 1"

    def same_key(self, dialect: Dialect) -> str:
        """Whether a row with this key is there, as it is now and not as it was when the transaction began."""
        quoted = _quoting(dialect)
        places = {column: f":v{n}" for n, column in enumerate(self.values)}
        same = " AND ".join(f"{quoted(column)} = {places[column]}" for column in self.key)
        return f"SELECT 1 FROM {self._table(dialect)} WHERE {same} LOCK IN SHARE MODE"  # noqa: S608

    def _table(self, dialect: Dialect) -> str:
        return ".".join(map(_quoting(dialect), self.table.split(".")))


def insertion(table: str, values: Mapping[str, Any], key: str | Sequence[str]) -> Insertion:
    columns = (key,) if isinstance(key, str) else tuple(key)
    for name in map(str, [*str(table).split("."), *values, *columns]):
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r:.80} is not the name of a table or column; write letters, digits and _"
            )
    if not columns or not set(columns) <= values.keys():
        raise ConfigError(
            "key= names the columns of a unique constraint, all of which must be among the values"
        )
    if any(values[column] is None for column in columns):
        raise KeyMissing("a column of the key is None; databases hold any number of rows with NULL there")
    return Insertion(table, dict(values), columns)


def _quoting(dialect: Dialect) -> Any:
    mark = "`" if dialect == "mysql" else '"'
    return lambda name: f"{mark}{name}{mark}"
