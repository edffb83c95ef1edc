"""What is known of a guarded function before it runs: its name, its kind, the type of its result; and its type once it is guarded."""

import functools
import inspect
import sys
import typing
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from weakref import WeakKeyDictionary

from dupeproof.core import callables
from dupeproof.core.codecs import Codec
from dupeproof.errors import ConfigError

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def qualified_name(fn: Callable[..., object], override: str | None = None) -> str:
    """The name that starts every key of a decorated function; moving the function without `name=` renames it."""
    if override is not None:
        if not override or not override.isprintable():
            raise ConfigError("name= must be a printable, non-empty text")
        # The first colon of a key ends the name, so that "a" with "b:c" is not "a:b" with "c".
        return override.replace("%", "%25").replace(":", "%3A")
    qualname: str | None = getattr(fn, "__qualname__", None)
    if qualname is None or "<lambda>" in qualname:
        raise ConfigError(f"a {type(fn).__name__} without a name of its own would share its keys; pass name=")
    return f"{_module_name(fn.__module__)}.{qualname}"


def _module_name(module: str) -> str:
    """The module's name, also for a program run by `python -m` or as a script: the same function, the same keys."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return Path(getattr(main, "__file__", module)).stem


def check_kind(fn: Callable[..., object], *, is_async: bool) -> None:
    """Refuse to decorate what the guard could not run once and replay."""
    check_callable(fn, is_async=is_async)
    if is_async and not callables.is_async(fn):
        raise ConfigError(f"{_title(fn)} is not async; guard it with Once, or make it `async def`")


def check_callable(fn: Callable[..., object], *, is_async: bool) -> None:
    """Refuse to call what could not be run once and replayed; a lambda may still return an awaitable."""
    if not callable(fn):
        raise ConfigError(
            f"expected a function, got {type(fn).__name__}; write @once(key=…) or run(key, function)"
        )
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise ConfigError(
            f"{_title(fn)} is a generator; its values cannot be replayed, return a list instead"
        )
    if not is_async and callables.is_async(fn):
        raise ConfigError(f"{_title(fn)} is async; guard it with AsyncOnce instead of Once")


def return_type(fn: Callable[..., object]) -> Any:
    """The annotated return type; Any where there is none. Raises NameError while a name in it is not defined."""
    target: Any = inspect.unwrap(fn)
    while isinstance(target, functools.partial):
        target = inspect.unwrap(target.func)
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = type(target).__call__
    found = getattr(target, "__annotations__", {}).get("return", Any)
    if isinstance(found, str):
        found = _resolved(found, inspect.unwrap(getattr(target, "__func__", target)))
    return type(None) if found is None else found


def _resolved(annotation: str, target: Any) -> Any:
    """What a textual annotation names, seen from the function's module or, for local classes, from its caller."""
    shim = SimpleNamespace(__annotations__={"return": annotation})
    code, cells = target.__code__, target.__closure__ or ()
    enclosed = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    try:
        hints = typing.get_type_hints(shim, target.__globals__, enclosed, include_extras=True)
    except NameError:
        hints = typing.get_type_hints(shim, target.__globals__, _locals_of_caller(), include_extras=True)
    return hints["return"]


def _locals_of_caller() -> dict[str, Any]:
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("dupeproof."):
        frame = frame.f_back
    return {} if frame is None else dict(frame.f_locals)


class KnownReturns:
    """The return types of the functions a guard is given, looked up and checked once for each."""

    def __init__(self, codec: Codec, *, is_async: bool) -> None:
        self._codec = codec
        self._is_async = is_async
        self._unusual = _GENERATORS if is_async else _GENERATORS | inspect.CO_COROUTINE
        self._known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def __call__(self, fn: Callable[..., object]) -> Any:
        if (
            type(fn) is FunctionType
            and "return" not in fn.__annotations__
            and not fn.__code__.co_flags & self._unusual
            and not hasattr(fn, "__wrapped__")
        ):
            return Any  # most lambdas, without the cost of asking further
        lasting = getattr(fn, "__func__", fn)  # a bound method is made anew for every call
        try:
            return self._known[lasting]
        except (KeyError, TypeError):
            check_callable(fn, is_async=self._is_async)
            returns = Returns(fn, self._codec).resolve()
        with suppress(TypeError):  # built-in and unhashable callables cannot be remembered
            self._known[lasting] = returns
        return returns


class Returns:
    """The return type of one function, resolved when its names are defined and checked against the codec."""

    def __init__(self, fn: Callable[..., object], codec: Codec) -> None:
        self._fn = fn
        self._codec = codec
        self.type: Any = None
        self.is_known = False
        with suppress(
            NameError
        ):  # a name of the annotation is defined further down; the first call looks again
            self._look_up()

    def _look_up(self) -> None:
        self.type = return_type(self._fn)
        self._codec.prepare(self.type)
        self.is_known = True

    def resolve(self) -> Any:
        """The type; looks again while it is not known."""
        if not self.is_known:
            try:
                self._look_up()
            except NameError as exc:
                raise ConfigError(
                    f"the return annotation of {_title(self._fn)} names something unknown ({exc}); "
                    "import it at run time"
                ) from exc
        return self.type


def _title(fn: Callable[..., object]) -> str:
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__


P = ParamSpec("P")
Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class Guarded(Protocol, Generic[P, R_co]):
    """Signature and result are those of the function; methods bind as usual."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def key_for(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The whole key of a call, as `get`, `resolve`, `forget` and the command line take it."""
        ...

    @overload
    def __get__(self, instance: None, owner: type) -> "Guarded[P, R_co]": ...
    @overload
    def __get__(
        self: "Guarded[Concatenate[S, Q], R_co]", instance: S, owner: type | None = None
    ) -> "Guarded[Q, R_co]": ...
