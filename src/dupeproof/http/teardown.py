"""Dependencies of FastAPI that end after the response: what they undo then is undone behind a stored answer."""

import inspect
import warnings
from collections.abc import Iterable, Iterator
from typing import Any


def routes_of(app: Any) -> Iterable[Any]:
    """Of an app, or of the one that middleware is around."""
    while not hasattr(app, "routes") and hasattr(app, "app"):
        app = app.app
    found: Iterable[Any] = getattr(app, "routes", ())
    return found


def warn_of_late_teardown(routes: Iterable[Any], methods: Iterable[str]) -> None:
    """Recognised by the attributes of the route, so that FastAPI need not be installed."""
    for route in routes:
        inner = getattr(getattr(route, "original_router", route), "routes", None)
        if inner is not None:
            warn_of_late_teardown(inner, methods)
        elif set(methods) & set(getattr(route, "methods", None) or ()):
            warn_of_route(route)


def warn_of_route(route: Any) -> None:
    for name in dict.fromkeys(_late(getattr(route, "dependant", None))):
        warnings.warn(
            f"{route.path}: the dependency {name} ends after the response is stored and sent. If it fails then, as a "
            f"commit may, the stored response is of work that was undone. Write Depends({name}, scope='function'), "
            "or commit in the handler",
            stacklevel=2,
        )


def _late(dependant: Any) -> Iterator[str]:
    for each in getattr(dependant, "dependencies", ()):
        call = each.call
        if _yields(call) and getattr(each, "scope", None) != "function":
            yield getattr(call, "__name__", type(call).__name__)
        yield from _late(each)


def _yields(call: Any) -> bool:
    plain = inspect.unwrap(call)
    return any(
        inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each)
        for each in (plain, getattr(plain, "__call__", None))  # noqa: B004 - of an object that is callable
    )
