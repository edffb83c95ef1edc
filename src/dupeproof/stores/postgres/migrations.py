"""The schema as a list of migrations; the sum of them is the schema."""

import re
from functools import cache
from importlib.resources import files

from msgspec import Struct

LOCK = "SELECT pg_advisory_xact_lock(7310587041632154)"
"""Processes that start together make the schema one after the other; a transaction lock works behind a pooler."""
CREATE_LEDGER = (
    "CREATE TABLE IF NOT EXISTS dupeproof_migrations "
    "(version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
)
APPLIED = "SELECT version FROM dupeproof_migrations"
RECORD = "INSERT INTO dupeproof_migrations (version, name) VALUES (:version, :name)"


class Migration(Struct, frozen=True):
    version: int
    name: str
    text: str

    @property
    def tables(self) -> list[str]:
        return re.findall(r"^CREATE TABLE (\w+)", self.text, re.MULTILINE)


@cache
def migrations() -> tuple[Migration, ...]:
    folder = files(__package__).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Migration(int(name[:4]), name[5:-4], folder.joinpath(name).read_text()) for name in names)


def schema() -> str:
    """Everything, as one text a database administrator can run by hand."""
    steps = [
        f"{each.text}\nINSERT INTO dupeproof_migrations (version, name) VALUES ({each.version}, '{each.name}');"
        for each in migrations()
    ]
    return "\n".join(["BEGIN;", CREATE_LEDGER + ";", *steps, "COMMIT;", ""])
