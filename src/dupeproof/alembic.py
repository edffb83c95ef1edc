"""For Alembic: our schema in a revision of yours, or hidden from autogenerate."""

from collections.abc import Mapping
from typing import Any

try:
    import dupeproof.sqlalchemy.autogenerate  # noqa: F401 - Alembic knows of ours from now on
    from dupeproof.sqlalchemy.operations import downgrade, upgrade
except ModuleNotFoundError as exc:
    if exc.name is None or exc.name.partition(".")[0] not in ("alembic", "sqlalchemy"):
        raise
    raise ModuleNotFoundError(
        'dupeproof.alembic needs Alembic, which is not installed; run: pip install "dupeproof[alembic]"',
        name=exc.name,
    ) from exc

__all__ = ["downgrade", "include_name", "upgrade"]


def include_name(name: str | None, type_: str, parent_names: Mapping[str, Any]) -> bool:
    """For `context.configure(include_name=include_name)`: False for what is ours, so that we look after it ourselves.

    One of your own asks it too: `return dupeproof_include_name(name, type_, parent_names) and …`.
    """
    table = name if type_ == "table" else parent_names.get("table_name")
    return table is None or not table.startswith("dupeproof_")
