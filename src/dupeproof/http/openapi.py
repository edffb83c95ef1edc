"""The guard in an OpenAPI document: the header, the problems, and the mark of a replay."""

from collections.abc import Callable, Iterable
from typing import Any

from dupeproof.http.keys import LONGEST_KEY
from dupeproof.http.problems import MEDIA_TYPE, PROBLEMS
from dupeproof.http.rules import chosen_methods

_PROBLEM = "IdempotencyProblem"
_SCHEMA = {
    "type": "object",
    "title": "A problem with the idempotency key of a request (RFC 9457)",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "enum": [str(code) for code in PROBLEMS]},
        "completed_status": {
            "type": "integer",
            "description": "The status of the response that was not kept",
        },
        "location": {"type": "string", "description": "Where what that request made is to be found"},
    },
}
_REPLAYED = {
    "description": "`true` when this is the stored response of an earlier request with the same key",
    "schema": {"type": "string", "enum": ["true"]},
}


def document(
    app: Any,
    *,
    methods: Iterable[str] = ("POST", "PATCH"),
    when: Callable[[str], bool] = lambda _path: True,
    required: bool = False,
    header: str = "Idempotency-Key",
) -> None:
    """Add the guard to the schema of a FastAPI app: for these methods, and for the paths that `when` says."""
    make = app.openapi
    wanted = {method.lower() for method in chosen_methods(methods)}

    def openapi() -> dict[str, Any]:
        schema: dict[str, Any] = make()
        schema.setdefault("components", {}).setdefault("schemas", {})[_PROBLEM] = _SCHEMA
        for path, operations in schema.get("paths", {}).items():
            for method in wanted & operations.keys() if when(path) else ():
                _describe(operations[method], header, required=required)
        return schema

    app.openapi = openapi


def header_parameter(header: str, *, required: bool) -> dict[str, Any]:
    return {
        "name": header,
        "in": "header",
        "required": required,
        "description": "A new unique value per operation, kept over its retries; those get the first response again",
        "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!#-+.-~]+$"},
    }


def _describe(operation: dict[str, Any], header: str, *, required: bool) -> None:
    responses = operation.setdefault("responses", {})
    if any("Idempotent-Replayed" in answer.get("headers", {}) for answer in responses.values()):
        return  # FastAPI keeps the document that it has made
    parameters = operation.setdefault("parameters", [])
    if not any(each.get("name", "").lower() == header.lower() for each in parameters):
        parameters.append(header_parameter(header, required=required))
    for answer in responses.values():
        answer.setdefault("headers", {})["Idempotent-Replayed"] = _REPLAYED
    for problem in PROBLEMS.values():
        answer = responses.setdefault(str(problem.status), {"description": problem.title})
        answer.setdefault("content", {})[MEDIA_TYPE] = {
            "schema": {"$ref": f"#/components/schemas/{_PROBLEM}"}
        }
    if "requestBody" in operation:
        # FastAPI says so of a body that it cannot parse, but not in its document.
        responses["400"]["content"].setdefault("application/json", {})
