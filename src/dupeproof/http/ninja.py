"""For django-ninja: a decorator for its operations, behind authentication and throttles.

An operation of django-ninja checks who calls, then validates, calls the function, and makes a response of what that returned.
The guard stands after the checks, and all else is done inside it, by a copy of the operation that has nothing to check.
"""

from collections.abc import Callable
from copy import copy
from functools import wraps
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, TypeVar

from dupeproof.errors import ConfigError
from dupeproof.http.handler_context import current
from dupeproof.http.openapi import header_parameter
from dupeproof.http.rules import Rules
from dupeproof.http.statuses import Fate

try:
    from ninja.decorators import decorate_view
    from ninja.errors import ValidationError
    from ninja.operation import Operation

    from dupeproof.http.django import Idempotent as DjangoIdempotent
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        'dupeproof.http.ninja needs django-ninja, which is not installed; run: pip install "dupeproof[ninja]"',
        name=exc.name,
    ) from exc

__all__ = ["Idempotent"]

F = TypeVar("F", bound=Callable[..., Any])
Run = Callable[..., Any]


class Idempotent(DjangoIdempotent):
    """A decorator for operations, sync or async, directly below `@api.post` or `@router.post`.

        idempotent = Idempotent(store="redis://…", scope=lambda request: request.auth.pk)

        @api.post("/orders", auth=TokenAuth(), response={201: OrderOut})
        @idempotent
        def order(request, new: OrderIn): ...

    The arguments are those of `dupeproof.http.django.Idempotent`; functions are given the request after authentication, so
    that `request.auth` is there. The response is stored as the response schema made it. What the exception handlers of
    the API answer is an answer and no failure, unless the key is held for it, by `hold_on` or `on_error="hold"`. Where the
    function did not run, or raised django-ninja's ValidationError, the key may be used with a better body. The header is added to the OpenAPI document.
    """

    def __call__(self, view: F) -> F:
        _check_function(view)
        decorated: F = decorate_view(self._around_run)(view)
        return decorated

    def _around_run(self, run: Run) -> Run:
        """In place of `run` of an operation, and of those that routers make of it where they are mounted."""
        operation = _operation_of(run)

        def bare(handler: _Handler) -> Operation:
            """Made for each request, for routers and the API change the operation until then."""
            inner = copy(operation)
            inner.auth_callbacks, inner.throttle_objects = [], []
            inner.view_func = handler.watched(operation.view_func)
            return inner

        if iscoroutinefunction(run):

            async def unchecked_async(request: Any, **kwargs: Any) -> Any:
                handler = _Handler()
                response = await type(operation).run(bare(handler), request, **kwargs)
                handler.decide()
                return response

            guarded = super().__call__(unchecked_async)

            @wraps(run)
            async def guarded_async_run(request: Any, **kwargs: Any) -> Any:
                refused: Any = await operation._run_checks(request)  # type: ignore[misc] # noqa: SLF001
                return await guarded(request, **kwargs) if refused is None else refused

            _describe(operation, self._rules())
            return guarded_async_run

        def unchecked(request: Any, **kwargs: Any) -> Any:
            handler = _Handler()
            response = type(operation).run(bare(handler), request, **kwargs)
            handler.decide()
            return response

        guarded = super().__call__(unchecked)

        @wraps(run)
        def guarded_run(request: Any, **kwargs: Any) -> Any:
            refused = operation._run_checks(request)  # noqa: SLF001 - there is no other way behind authentication
            return guarded(request, **kwargs) if refused is None else refused

        _describe(operation, self._rules())
        return guarded_run

    def _rules(self) -> Rules:
        policy = self._policy or self._async_policy
        assert policy is not None
        return policy.rules


class _Handler:
    """What became of the function of an operation, in one request."""

    def __init__(self) -> None:
        self._has_run = False

    def watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._has_run = True
            try:
                result = function(*args, **kwargs)
            except Exception as exc:
                self._failed(exc)
                raise
            return self._awaited(result) if iscoroutine(result) else result

        return call

    async def _awaited(self, result: Any) -> Any:
        try:
            return await result
        except Exception as exc:
            self._failed(exc)
            raise

    def _failed(self, error: Exception) -> None:
        """The API may have an answer to the error, and the guard meets only that."""
        handling = current.get()
        if isinstance(error, ValidationError):
            self._has_run = False
        elif handling is not None:
            handling.saw(error)

    def decide(self) -> None:
        """Nothing was done, unless the function says otherwise itself."""
        handling = current.get()
        if handling is not None and handling.fate is None and not self._has_run:
            handling.fate = Fate.RELEASE


def _check_function(view: Any) -> None:
    if isinstance(view, type) or not callable(view):
        raise ConfigError(
            "decorate the functions of django-ninja's operations, each directly below @api.post(…)"
        )
    if hasattr(view, "_ninja_operation"):
        raise ConfigError(
            f"{view.__name__} is an operation already; write the decorator below @api.post(…), not above it"
        )


def _operation_of(run: Any) -> Operation:
    operation = getattr(run, "__self__", None)
    if not isinstance(operation, Operation):
        raise ConfigError(
            "another decorator of views is nearer to the operation, and would see no authentication; write decorate_view(…) "
            "above this one"
        )
    if not callable(getattr(operation, "_run_checks", None)):
        raise ConfigError(
            "this version of django-ninja authenticates in a way that dupeproof.http.ninja does not know; use another "
            "version, or dupeproof.http.django.IdempotencyMiddleware with a scope that needs no authentication"
        )
    return operation


def _describe(operation: Operation, rules: Rules) -> None:
    if rules.methods.isdisjoint(operation.methods):
        raise ConfigError(
            f"{operation.view_func.__name__} is not called for {' or '.join(sorted(rules.methods))}, which is what is "
            "guarded, so no key would ever be looked at; leave the decorator away, or choose others with methods="
        )
    extra = operation.openapi_extra or {}
    described = [*extra.get("parameters", ())]
    known = [each.get("name", "") for each in described]
    known += [parameter.alias or parameter.name for parameter in operation.signature.params]
    if rules.find_key is None and rules.header.lower() not in {
        each.lower().replace("_", "-") for each in known
    }:
        described.append(header_parameter(rules.header, required=rules.required))
        operation.openapi_extra = {**extra, "parameters": described}
