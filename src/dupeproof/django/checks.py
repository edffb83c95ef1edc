"""What is wrong with a project's settings, where `manage.py check` can see it."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core import checks
from django.db import connections
from django.urls import URLPattern, URLResolver, get_resolver

from dupeproof.http.order import GUARDED, inside_of_guard

GUARD = "dupeproof.http.django.IdempotencyMiddleware"


def register_all() -> None:
    checks.register(check_middleware, checks.Tags.compatibility)
    checks.register(check_atomic_requests, checks.Tags.urls)


def check_middleware(**_: Any) -> list[checks.CheckMessage]:
    """That the guard is there, once, with its options, and after those that it needs."""
    paths = list(settings.MIDDLEWARE)
    options = getattr(settings, "DUPEPROOF_HTTP", None)
    if GUARD not in paths:
        if options is None:
            return []
        return [
            checks.Warning(
                "settings.DUPEPROOF_HTTP is set, and no middleware reads it: no request is guarded by it.",
                hint=f'Add "{GUARD}" to MIDDLEWARE, after those that say who the user is.',
                id="dupeproof.W001",
            )
        ]
    found: list[checks.CheckMessage] = []
    if not isinstance(options, dict) or not {"store", "scope"} <= options.keys():
        found.append(
            checks.Error(
                "IdempotencyMiddleware has no settings.DUPEPROOF_HTTP with a store and a scope.",
                hint='Write DUPEPROOF_HTTP = {"store": "redis://…", "scope": "shop.auth.user_id"}.',
                id="dupeproof.E001",
            )
        )
    if paths.count(GUARD) > 1:
        found.append(
            checks.Error(
                "IdempotencyMiddleware is in MIDDLEWARE more than once.",
                hint="Leave one of them.",
                id="dupeproof.E002",
            )
        )
    found += [
        checks.Warning(
            f"{path} stands inside of IdempotencyMiddleware: {reason}.",
            hint="Move it before IdempotencyMiddleware in MIDDLEWARE.",
            id="dupeproof.W002",
        )
        for path, reason in inside_of_guard(paths, GUARD)
    ]
    return found


def check_atomic_requests(**_: Any) -> list[checks.CheckMessage]:
    """That no guarded view is in a transaction which ends after its response was stored."""
    atomic = [alias for alias, database in connections.settings.items() if database.get("ATOMIC_REQUESTS")]
    if not atomic or not getattr(settings, "ROOT_URLCONF", None):
        return []
    found: dict[str, checks.CheckMessage] = {}
    for view in _views(get_resolver().url_patterns):
        apart = getattr(
            view, "_non_atomic_requests", ()
        )  # as Django itself does; there is no public way to know
        inside = [alias for alias in atomic if alias not in apart]
        name = _name(view)
        if inside and name not in found and _is_guarded(view):
            found[name] = checks.Warning(
                f"{name}: ATOMIC_REQUESTS of the database {inside[0]!r} commits after the view, when the decorator has stored "
                "its response already. Should the commit fail, retries get the response of work that was undone.",
                hint="Take IdempotencyMiddleware in place of the decorator, or put "
                "django.db.transaction.non_atomic_requests around the view and use idempotency.transaction in it.",
                id="dupeproof.W003",
            )
    return list(found.values())


def _views(patterns: Any) -> Iterator[Any]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _views(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            yield pattern.callback


def _is_guarded(view: Any) -> bool:
    """The function of it, or a method of its class."""
    if getattr(view, GUARDED, False):
        return True
    made_of = getattr(view, "view_class", None) or getattr(view, "cls", None)
    methods = (
        [getattr(made_of, name, None) for name in dir(made_of) if not name.startswith("__")]
        if made_of
        else []
    )
    return any(getattr(method, GUARDED, False) for method in methods)


def _name(view: Any) -> str:
    named = getattr(view, "view_class", None) or getattr(view, "cls", None) or view
    return f"{named.__module__}.{getattr(named, '__name__', type(named).__name__)}"
