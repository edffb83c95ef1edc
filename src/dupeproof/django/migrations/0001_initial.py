"""Our tables up to version 10 of our own SQL, and the models that read them."""

from django.db import migrations, models

import dupeproof.django.fields
from dupeproof.django.operations import Schema


class Migration(migrations.Migration):  # type: ignore[misc] # Django has no types
    initial = True

    dependencies = ()

    operations = (
        Schema(to=10),
        migrations.CreateModel(
            name="DeadMessage",
            fields=[
                ("seq", models.BigIntegerField(primary_key=True, serialize=False)),
                ("message_id", models.TextField(db_column="id")),
                ("topic", models.TextField(db_column="aggregatetype")),
                ("type", models.TextField()),
                ("attempts", models.IntegerField()),
                ("error", models.TextField()),
                ("created_at", dupeproof.django.fields.MomentField()),
                ("died_at", dupeproof.django.fields.MomentField()),
            ],
            options={
                "verbose_name": "dead message",
                "db_table": "dupeproof_outbox_dead",
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("seq", models.BigIntegerField(primary_key=True, serialize=False)),
                ("message_id", models.TextField(db_column="id")),
                ("topic", models.TextField(db_column="aggregatetype")),
                ("type", models.TextField()),
                ("created_at", dupeproof.django.fields.MomentField()),
                ("not_before", dupeproof.django.fields.MomentField(null=True)),
            ],
            options={
                "verbose_name": "waiting message",
                "db_table": "dupeproof_outbox",
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Record",
            fields=[
                (
                    "key",
                    dupeproof.django.fields.KeyField(
                        primary_key=True, serialize=False, verbose_name="digest"
                    ),
                ),
                ("namespace", models.TextField()),
                ("name", models.TextField()),
                ("kept_key", models.TextField()),
                ("state", models.TextField()),
                ("attempt", models.IntegerField()),
                ("hold", models.BooleanField()),
                ("created_at", dupeproof.django.fields.MomentField()),
                ("lease_until", dupeproof.django.fields.MomentField()),
                ("finished_at", dupeproof.django.fields.MomentField(null=True)),
                ("error", models.TextField()),
            ],
            options={
                "verbose_name": "held or dead key",
                "verbose_name_plural": "held and dead keys",
                "db_table": "dupeproof_records",
                "managed": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
    )
