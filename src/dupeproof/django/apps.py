"""The app as Django knows it."""

from django.apps import AppConfig


class DupeproofConfig(AppConfig):  # type: ignore[misc] # Django has no types
    name = "dupeproof.django"
    label = "dupeproof"
    verbose_name = "Duplicates"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from dupeproof.django import checks  # noqa: PLC0415 - Django wants its settings first

        checks.register_all()
