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
    "BaseHTTPMiddleware": "replays do not pass through it then, so what it checks or adds is missing from them",
}


GUARDED = "dupeproof_guarded"
"""A view with this attribute has a decorator of ours around it."""


def is_added(app: Any, guard: type) -> bool:
    """Whether the guard is one of the app's own middleware, as `add_middleware` makes it."""
    return any(each.cls is guard for each in getattr(app, "user_middleware", ()))


def warn_of_order(app: Any, guard: type) -> None:
    """Of an app of Starlette's kind: its middleware, outermost first."""
    added = list(getattr(app, "user_middleware", ()))
    place = [each.cls for each in added].index(guard)
    _warn(
        ((_name_of(each), _reason_for(each.cls)) for each in added[place + 1 :]),
        "call add_middleware for it after the call for IdempotencyMiddleware: what is added last stands outermost",
    )


def warn_of_inside(app: Any) -> None:
    """Of an app that the guard was put around by hand: all of its middleware, and what is around it."""
    found = []
    while hasattr(app, "app"):
        found.append((type(app).__name__, _reason_for(type(app))))
        app = app.app
    found += [(_name_of(each), _reason_for(each.cls)) for each in getattr(app, "user_middleware", ())]
    _warn(found, "put it around IdempotencyMiddleware, or add both with add_middleware, this one last")


def warn_of_django_order(paths: list[str], guard: str) -> None:
    """Of the list in a project's settings."""
    found = ((path.rpartition(".")[2], reason) for path, reason in inside_of_guard(paths, guard))
    _warn(found, "move it before IdempotencyMiddleware in settings.MIDDLEWARE")


def inside_of_guard(paths: list[str], guard: str) -> list[tuple[str, str]]:
    """Which of them should stand before it, and why."""
    after = paths[paths.index(guard) + 1 :] if guard in paths else []
    reasons = ((path, _REASONS.get(path.rpartition(".")[2], "")) for path in after)
    return [(path, reason) for path, reason in reasons if reason]


def _name_of(added: Any) -> str:
    """What its author calls it. That of `@app.middleware("http")` is a function."""
    named = getattr(added, "kwargs", {}).get("dispatch", added.cls)
    return str(getattr(named, "__name__", type(named).__name__))


def _reason_for(kind: Any) -> str:
    """By the names of it and its bases, so that Starlette's own need not be loaded. Of a function nothing is known."""
    names = [base.__name__ for base in getattr(kind, "__mro__", ())]
    return next((_REASONS[name] for name in names if name in _REASONS), "")


def _warn(found: Iterable[tuple[str, str]], what_to_do: str) -> None:
    for name, reason in found:
        if reason:
            warnings.warn(
                f"{name} stands inside of the idempotency guard: {reason}; {what_to_do}", stacklevel=2
            )
