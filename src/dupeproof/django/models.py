"""What can be looked at of ours. The tables belong to our own SQL; these only read them."""

from typing import Any

from django.db import connections, models

from dupeproof.django.fields import KeyField, MomentField

_WAITING = {"postgresql": "purge_from = 'infinity' AND expires_at = 'infinity'", "sqlite": "purge_from = 0"}
"""By the index on purge_from, as `dupeproof list` finds them."""


class WaitingKeys(models.Manager):  # type: ignore[misc] # Django has no types
    """Keys that somebody has to look at: they are held, or dead."""

    def get_queryset(self) -> Any:
        found = super().get_queryset()
        where = _WAITING.get(connections[found.db].vendor)
        if where is None:
            return found
        return found.extra(where=[where, "(state = 'dead' OR (state = 'running' AND hold))"])  # noqa: S610 - our own words


class Record(models.Model):  # type: ignore[misc] # Django has no types
    """What is known of a key."""

    key = KeyField(primary_key=True, verbose_name="digest")
    namespace = models.TextField()
    name = models.TextField()
    kept_key = models.TextField()
    state = models.TextField()
    attempt = models.IntegerField()
    hold = models.BooleanField()
    created_at = MomentField()
    lease_until = MomentField()
    finished_at = MomentField(null=True)
    error = models.TextField()

    objects = models.Manager()
    waiting = WaitingKeys()

    class Meta:
        managed = False
        db_table = "dupeproof_records"
        base_manager_name = "objects"
        default_permissions = ("view",)
        verbose_name = "held or dead key"
        verbose_name_plural = "held and dead keys"

    def __str__(self) -> str:
        return f"{self.namespace}: {self.kept_key or self.key[:12]}"


class Message(models.Model):  # type: ignore[misc] # Django has no types
    """A message that waits for its relay."""

    seq = models.BigIntegerField(primary_key=True)
    message_id = models.TextField(db_column="id")
    topic = models.TextField(db_column="aggregatetype")
    type = models.TextField()
    created_at = MomentField()
    not_before = MomentField(null=True)

    class Meta:
        managed = False
        db_table = "dupeproof_outbox"
        default_permissions = ("view",)
        verbose_name = "waiting message"

    def __str__(self) -> str:
        return f"{self.topic}: {self.message_id}"


class DeadMessage(models.Model):  # type: ignore[misc] # Django has no types
    """A message whose attempts are used up."""

    seq = models.BigIntegerField(primary_key=True)
    message_id = models.TextField(db_column="id")
    topic = models.TextField(db_column="aggregatetype")
    type = models.TextField()
    attempts = models.IntegerField()
    error = models.TextField()
    created_at = MomentField()
    died_at = MomentField()

    class Meta:
        managed = False
        db_table = "dupeproof_outbox_dead"
        default_permissions = ("view",)
        verbose_name = "dead message"

    def __str__(self) -> str:
        return f"{self.topic}: {self.message_id}"
