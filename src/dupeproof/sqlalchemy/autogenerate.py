"""Alembic's autogenerate, taught what is ours: one operation of ours in place of many about our tables."""

from collections.abc import Iterator
from typing import Any

from alembic.autogenerate import comparators, renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import MigrateOperation, Operations, ops
from alembic.util import DispatchPriority, PriorityDispatchResult
from sqlalchemy import MetaData

from dupeproof.sqlalchemy import operations
from dupeproof.sqlalchemy import schema as schemas
from dupeproof.sqlalchemy.metadata import Ours, ours_in
from dupeproof.stores.definitions import chosen, names_in


class _Change(MigrateOperation):
    """Of our schema, from a version to another; 0 is none."""

    def __init__(self, ours: Ours, *, to: int | None, back_to: int) -> None:
        self.ours, self.to, self.back_to = ours, to, back_to

    @property
    def arguments(self) -> str:
        """What is not as it is where it is left out."""
        given = {"schema": self.ours.schema, "groups": list(self.ours.groups) or None}
        return "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)


class Upgrade(_Change):
    def reverse(self) -> MigrateOperation:
        return Downgrade(self.ours, to=self.to, back_to=self.back_to)

    def to_diff_tuple(self) -> tuple[Any, ...]:
        return ("dupeproof_upgrade", self.ours.schema, self.to)


class Downgrade(_Change):
    def reverse(self) -> MigrateOperation:
        return Upgrade(self.ours, to=self.to, back_to=self.back_to)

    def to_diff_tuple(self) -> tuple[Any, ...]:
        return ("dupeproof_downgrade", self.ours.schema, self.back_to)


@Operations.implementation_for(Upgrade)
def _upgrade(op: Operations, change: Upgrade) -> None:
    operations.upgrade(op, to=change.to, schema=change.ours.schema, groups=change.ours.groups)


@Operations.implementation_for(Downgrade)
def _downgrade(op: Operations, change: Downgrade) -> None:
    operations.downgrade(op, to=change.back_to, schema=change.ours.schema, groups=change.ours.groups)


@renderers.dispatch_for(Upgrade)
def _render_upgrade(context: AutogenContext, change: Upgrade) -> str:
    context.imports.add("import dupeproof.alembic")
    to = "" if change.to is None else f", to={change.to}"
    return f"dupeproof.alembic.upgrade(op{to}{change.arguments})"


@renderers.dispatch_for(Downgrade)
def _render_downgrade(context: AutogenContext, change: Downgrade) -> str:
    context.imports.add("import dupeproof.alembic")
    to = f", to={change.back_to}" if change.back_to else ""
    return f"dupeproof.alembic.downgrade(op{to}{change.arguments})"


@comparators.dispatch_for("autogenerate", priority=DispatchPriority.LAST)
def _compare(context: AutogenContext, upgrade_ops: ops.UpgradeOps) -> PriorityDispatchResult:
    """After Alembic's own look at the tables."""
    for each in _ours(context):
        change = _missing(context, each)
        names = names_in(each.groups)
        if change is None and each.dialect == schemas.dialect_of(context.connection):
            names = _hidden(context, upgrade_ops.ops, each)
        upgrade_ops.ops[:] = _without(upgrade_ops.ops, names, each.schema)
        if change is not None:
            upgrade_ops.ops.insert(0, change)
    return PriorityDispatchResult.CONTINUE


def _ours(context: AutogenContext) -> Iterator[Ours]:
    """Each schema once, with all groups that are wanted there."""
    metadata = context.metadata
    several = [metadata] if isinstance(metadata, MetaData) else list(metadata or ())
    found = [ours for each in several for ours in ours_in(each)]
    for schema in dict.fromkeys(ours.schema for ours in found):
        here = [ours for ours in found if ours.schema == schema]
        everything = any(not ours.groups for ours in here)
        groups = () if everything else tuple(dict.fromkeys(name for ours in here for name in ours.groups))
        yield Ours(here[0].dialect, schema, groups)


def _missing(context: AutogenContext, ours: Ours) -> Upgrade | None:
    """What has to be done, whoever has made what is there."""
    connection = context.connection
    assert connection is not None
    dialect = schemas.dialect_of(connection)
    if dialect == "postgresql":
        applied = schemas.applied(connection, ours.schema)
        if not operations.is_due(applied, ours.groups):
            return None
        return Upgrade(ours, to=operations.latest(), back_to=max(applied, default=0))
    there = set(context.inspector.get_table_names())
    if {table.name for table in chosen(dialect, ours.groups)} <= there:
        return None
    return Upgrade(ours, to=None, back_to=0)


def _hidden(context: AutogenContext, found: list[MigrateOperation], ours: Ours) -> frozenset[str]:
    """Tables that Alembic takes for missing because `include_name` does not let it see them."""
    made = {op.table_name for op in found if isinstance(op, ops.CreateTableOp)} & names_in(ours.groups)
    return frozenset(name for name in made if context.inspector.has_table(name, schema=ours.schema))


def _without(
    found: list[MigrateOperation], names: frozenset[str], schema: str | None
) -> list[MigrateOperation]:
    def is_ours(op: MigrateOperation) -> bool:
        table = getattr(op, "table_name", None)
        return table in names and getattr(op, "schema", None) == schema

    return [op for op in found if not is_ours(op)]
