"""What stands inside of the guard and should stand outside, where that can be seen when the app starts."""

import warnings
from collections.abc import Iterable
from typing import Any

_REASONS = {
    "CORSMiddleware": "replayed responses have no CORS headers then, and a browser does not show them to its page",
    "CorsMiddleware": "replayed responses have no CORS headers then, and a browser does not show them to its page",
    "GZipMiddleware": "it compresses nothing that has a key then, for what is stored is for all clients",
    "CompressMiddleware": "it compresses nothing that has a key then, for what is stored is for all clients",
    "BrotliMiddleware": "it compresses nothing that has a key then, for what is stored is for all clients",
    "AuthenticationMiddleware": "scope= cannot know the user then, and replays are given out without asking who it is",
    "SessionMiddleware": "scope= cannot know the session then",
}
_SEES_EVERYTHING = "replays do not pass through it then, so what it checks or adds is missing from them"


def warn_of_order(app: Any, guard: type) -> None:
    """Of an app of Starlette's kind: its middleware, outermost first."""
    kinds = [each.cls for each in getattr(app, "user_middleware", ())]
    if guard in kinds:
        inside = kinds[kinds.index(guard) + 1 :]
        _warn(
            ((kind.__name__, _REASONS.get(kind.__name__) or _reason_for(kind)) for kind in inside),
            "call add_middleware for it after the call for IdempotencyMiddleware: what is added last stands outermost",
        )


def warn_of_django_order(paths: list[str], guard: str) -> None:
    """Of the list in a project's settings."""
    if guard in paths:
        names = (path.rpartition(".")[2] for path in paths[paths.index(guard) + 1 :])
        _warn(
            ((name, _REASONS.get(name, "")) for name in names),
            "move it before IdempotencyMiddleware in settings.MIDDLEWARE",
        )


def _reason_for(kind: type) -> str:
    """By the name of its base, so that Starlette's own need not be loaded."""
    return _SEES_EVERYTHING if any(base.__name__ == "BaseHTTPMiddleware" for base in kind.__mro__) else ""


def _warn(found: Iterable[tuple[str, str]], what_to_do: str) -> None:
    for name, reason in found:
        if reason:
            warnings.warn(
                f"{name} stands inside of the idempotency guard: {reason}; {what_to_do}", stacklevel=2
            )
