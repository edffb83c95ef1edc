# No twin: only the command asks for it.
"""What a user needs to work with our tables and not to own them, as GRANTs that their owner runs."""

import re

from dupeproof.errors import ConfigError
from dupeproof.sql import CallerConnection
from dupeproof.stores.definitions import LEDGER, tables
from dupeproof.stores.installation import functions

_EVERYTHING = "SELECT, INSERT, UPDATE, DELETE"
_LESS = {
    LEDGER: "SELECT",  # which the doctor reads
    "dupeproof_lateness": "SELECT, INSERT, UPDATE",
    "dupeproof_offsets": "SELECT, INSERT, UPDATE",
    "dupeproof_topics": "SELECT, INSERT, UPDATE",
    "dupeproof_outbox": "SELECT, INSERT, DELETE",
    "dupeproof_outbox_shards": "SELECT, INSERT, UPDATE",
    "dupeproof_outbox_dead": "SELECT, INSERT, DELETE",
}
_THERE = {
    "postgresql": (
        "SELECT CAST(c.relname AS text) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p')"
    ),
    "mysql": "SELECT table_name FROM information_schema.tables WHERE table_schema = database()",
}
_ACCOUNT = re.compile(r"'?([^'@]+)'?(?:@'?([^'@]+)'?)?")


def grants(adapted: CallerConnection, user: str) -> list[str]:
    """For the tables that are there, in the schema where our statements find them."""
    if adapted.dialect == "sqlite":
        raise ConfigError("SQLite knows no users: the file and its folder must be writable for the process")
    there = {name for (name,) in adapted.execute(_THERE[adapted.dialect])}
    names = [name for name in tables(adapted.dialect) if name in there]
    if not names:
        raise ConfigError("there are no tables to grant; make them first: dupeproof schema URL --apply")
    return (_postgresql if adapted.dialect == "postgresql" else _mysql)(adapted, user, names)


def _postgresql(adapted: CallerConnection, user: str, names: list[str]) -> list[str]:
    [(database, schema)] = adapted.execute(
        "SELECT quote_ident(current_database()), quote_ident(current_schema())"
    )
    to = '"' + user.replace('"', '""') + '"'
    return [
        f"GRANT CONNECT ON DATABASE {database} TO {to};",
        f"GRANT USAGE ON SCHEMA {schema} TO {to};",
        *(f"GRANT {_LESS.get(name, _EVERYTHING)} ON {schema}.{name} TO {to};" for name in names),
        *(f"GRANT EXECUTE ON FUNCTION {schema}.{signature} TO {to};" for signature in functions(adapted)),
    ]


def _mysql(adapted: CallerConnection, user: str, names: list[str]) -> list[str]:
    [(database,)] = adapted.execute("SELECT database()")
    account = _ACCOUNT.fullmatch(user)
    if account is None:
        raise ConfigError("--grants takes the name of a user, such as app or app@10.0.0.1")
    to = f"'{account[1]}'@'{account[2] or '%'}'"
    quoted = database.replace("`", "``")
    return [f"GRANT {_LESS.get(name, _EVERYTHING)} ON `{quoted}`.`{name}` TO {to};" for name in names]
