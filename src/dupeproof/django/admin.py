"""Django's admin shows what waits for somebody. It changes nothing: for that there are the command and the console."""

from typing import Any

from django.contrib import admin
from django.db import connections, router
from django.http import HttpRequest

from dupeproof.django.models import DeadMessage, Message, Record
from dupeproof.sql.kinds import supported_dialect
from dupeproof.stores.definitions import tables


class ReadOnly(admin.ModelAdmin):  # type: ignore[misc] # Django has no types
    show_full_result_count = False
    list_per_page = 100
    actions = None

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:  # noqa: ARG002 - Django's
        return False

    def has_change_permission(self, request: HttpRequest, *_: Any) -> bool:  # noqa: ARG002 - Django's
        return False

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:  # noqa: ARG002 - Django's
        return False

    def has_view_permission(self, request: HttpRequest, *objects: Any) -> bool:
        vendor = connections[router.db_for_read(self.model)].vendor
        there = self.model._meta.db_table in tables(supported_dialect(vendor))  # noqa: SLF001 - Django's own way
        return there and bool(super().has_view_permission(request, *objects))


class _State(admin.SimpleListFilter):  # type: ignore[misc] # Django has no types
    title = parameter_name = "state"

    def lookups(self, *_: Any) -> list[tuple[str, str]]:
        return [("held", "held"), ("dead", "dead")]

    def queryset(self, _: HttpRequest, found: Any) -> Any:
        states = {"held": "running", "dead": "dead"}
        return found if self.value() not in states else found.filter(state=states[self.value()])


@admin.register(Record)
class RecordAdmin(ReadOnly):
    """Held and dead keys. A guarded call that runs under hold just now is among them until it ends."""

    list_display = ("short", "namespace", "name", "kept_key", "shown_state", "attempt", "created_at", "error")
    list_filter = (_State,)
    search_fields = ("namespace", "name", "kept_key")
    ordering = ("created_at",)
    exclude = ("hold",)

    def get_queryset(self, request: HttpRequest) -> Any:  # noqa: ARG002 - Django's
        return Record.waiting.order_by("created_at")

    @admin.display(description="digest")  # type: ignore[untyped-decorator]
    def short(self, record: Record) -> str:
        return str(record.key)[:12]

    @admin.display(description="state")  # type: ignore[untyped-decorator]
    def shown_state(self, record: Record) -> str:
        return "held" if record.state == "running" else str(record.state)


@admin.register(DeadMessage)
class DeadMessageAdmin(ReadOnly):
    list_display = ("message_id", "topic", "type", "attempts", "died_at", "error")
    search_fields = ("message_id", "topic", "type")
    ordering = ("seq",)


@admin.register(Message)
class MessageAdmin(ReadOnly):
    list_display = ("message_id", "topic", "type", "created_at", "not_before")
    search_fields = ("message_id", "topic", "type")
    ordering = ("seq",)
