"""Columns whose types differ between databases, with the same values in Python."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models


class KeyField(models.Field):  # type: ignore[misc] # Django has no types
    """The digest of a key, as digits; a uuid in PostgreSQL, bytes elsewhere."""

    def get_internal_type(self) -> str:
        return "KeyField"

    def db_type(self, connection: Any) -> str:
        return "uuid" if connection.vendor == "postgresql" else "blob"

    def from_db_value(self, value: Any, _: object, __: Any) -> str | None:
        if value is None:
            return None
        return value.hex if isinstance(value, UUID) else bytes(value).hex()

    def to_python(self, value: Any) -> Any:
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:  # noqa: ARG002 - Django's
        if value is None:
            return None
        try:
            digest = bytes.fromhex(value)
        except ValueError:
            digest = b""
        if connection.vendor != "postgresql":
            return digest
        return UUID(bytes=digest) if len(digest) == 16 else UUID(int=0)


class MomentField(models.Field):  # type: ignore[misc] # Django has no types
    """A moment: with a time zone in PostgreSQL, milliseconds elsewhere."""

    def get_internal_type(self) -> str:
        return "MomentField"

    def db_type(self, connection: Any) -> str:
        return "timestamptz" if connection.vendor == "postgresql" else "bigint"

    def from_db_value(self, value: Any, _: object, __: Any) -> datetime | None:
        if not value:
            return None
        moment = datetime.fromtimestamp(value / 1_000, UTC) if isinstance(value, int) else value
        return (
            moment if settings.USE_TZ or moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)
        )

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:  # noqa: ARG002 - Django's
        if value is None or connection.vendor == "postgresql":
            return value
        return int(value.timestamp() * 1_000)
