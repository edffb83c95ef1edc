"""The id of a delivered message: as its broker has it, as the user reads it, or by the policy for those without."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from dupeproof.brokers.base import Delivery, Message
from dupeproof.brokers.options import Plan
from dupeproof.errors import KeyInvalid, KeyMissing
from dupeproof.keys.ids import content_id
from dupeproof.keys.names import check_key

_IN_HEADERS = {
    "content_type": ("content-type",),
    "correlation_id": ("correlation-id", "correlation_id", "x-correlation-id"),
}
"""What brokers without properties of their own have in headers, under the names that clients give them."""


def delivery(
    find: Callable[[], str | None], receipt: Any, *, partition_key: str | None = None, **fields: Any
) -> Delivery:
    """A delivery, with the id that `find` finds, or with why it is none."""
    try:
        ident, fault = find(), None
    except KeyInvalid as exc:
        ident, fault = None, exc
    message = Message(id=ident, **{**_in_headers(fields["headers"]), **fields})
    return Delivery(message, receipt, message.key if partition_key is None else partition_key, fault)


def _in_headers(headers: Mapping[str, str]) -> dict[str, str]:
    if not headers:
        return {}
    known = {name.lower(): value for name, value in headers.items()}
    return {
        field: known[name]
        for field, names in _IN_HEADERS.items()
        for name in reversed(names)
        if name in known
    }


def identify(each: Delivery, plan: Plan) -> KeyInvalid | None:
    """Give the message its id by the plan; or say why it can have none."""
    message = each.message
    try:
        if plan.id_of is not None:
            found = plan.id_of(message)
            each.message = message = replace(message, id=None if found is None else check_key(found))
        elif each.fault is not None:
            return each.fault
        if message.id is not None or plan.missing_id == "pass":
            return None
        if plan.missing_id == "content" and message.body:
            ident = content_id(message.body, context={"topic": message.topic, "key": message.key})
            each.message = replace(message, id=ident)
            return None
    except KeyInvalid as exc:
        return exc
    except Exception as exc:  # noqa: BLE001 - id_of is the user's, and the body may be anybody's
        return KeyInvalid(f"id_of could not read the id: {type(exc).__name__}")
    return KeyMissing(
        "the message has no id; have its sender set one, or choose id_of=, missing_id='content' or 'pass'"
    )
