"""For those who keep our tables with their own, in SQLAlchemy's metadata and Alembic's revisions."""

try:
    from dupeproof.sqlalchemy.metadata import tables
except ModuleNotFoundError as exc:
    if exc.name is None or exc.name.partition(".")[0] != "sqlalchemy":
        raise
    raise ModuleNotFoundError(
        'dupeproof.sqlalchemy needs SQLAlchemy, which is not installed; run: pip install "dupeproof[sqlalchemy]"',
        name=exc.name,
    ) from exc

__all__ = ["tables"]
