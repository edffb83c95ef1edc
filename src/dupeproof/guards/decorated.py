"""The type of a guarded function: called like the original, plus `key_for`."""

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

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
