"""What a handler asks for by its signature: the message, its payload as a type, or all messages of a batch.

def handle(message, connection)                      the message as it is
def handle(order: Order, connection)                 its payload, read as that type
def handle(order: Order, connection, message)        both
def handle(messages: list[Message], connection)      all new messages of a batch, in one call
"""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from dupeproof.brokers.base import Handler, Message, Middleware, Reject
from dupeproof.core.callables import is_async
from dupeproof.core.codecs import JsonCodec, Unstorable
from dupeproof.core.trace_context import processing
from dupeproof.errors import ConfigError
from dupeproof.outbox import messages as outbox

_MESSAGE, _MESSAGES = "message", "messages"
_ANYTHING = (inspect.Parameter.empty, Any, object, Message)
_SEQUENCES = (list, tuple, Sequence, Collection, Iterable)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Wanted(Struct, frozen=True):
    batch: bool = False
    payload: Any = Message
    """What the body is read as; `Message` for the message itself."""
    message: bool = False
    """The message too, beside its payload."""


def wanted_by(handler: Handler) -> Wanted:
    """Read once, when the consumer is made. A handler that does not tell gets the message."""
    parameters = _parameters(handler)
    if not parameters or parameters[0].kind not in _POSITIONAL:
        return Wanted()
    first, *others = parameters
    asked = _resolved(first.annotation, handler)
    if Message in get_args(asked) and get_origin(asked) in (Union, UnionType):
        asked = Message  # or None, which never comes
    batch = first.name == _MESSAGES or _is_list_of_messages(asked)
    if batch and get_origin(asked) in _SEQUENCES:
        asked = get_args(asked)[0]
    elif batch:
        asked = Message
    if asked in _ANYTHING or (inspect.isclass(asked) and issubclass(asked, Message)):
        return Wanted(batch=batch)
    _check_type(asked)
    return Wanted(
        batch=batch, payload=asked, message=not batch and any(each.name == _MESSAGE for each in others)
    )


def _parameters(handler: Handler) -> list[inspect.Parameter]:
    try:
        return [*inspect.signature(handler).parameters.values()]
    except (TypeError, ValueError):
        return []


def _resolved(annotation: Any, handler: Any) -> Any:
    """What an annotation in quotes stands for. `Message` may be known to type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = inspect.unwrap(handler if inspect.isroutine(handler) else type(handler).__call__)
    names = {"Message": Message, "list": list, "Sequence": Sequence, **getattr(function, "__globals__", {})}
    try:
        return eval(annotation, names)  # noqa: S307 - the user's own code
    except Exception as exc:
        raise ConfigError(
            f"the handler's first parameter is annotated {annotation!r:.80}, which is not known when it runs; "
            "import that outside of `if TYPE_CHECKING`, or annotate it with Message"
        ) from exc


def _is_list_of_messages(asked: Any) -> bool:
    return get_origin(asked) in _SEQUENCES and get_args(asked)[:1] == (Message,)


def _check_type(asked: Any) -> None:
    if asked in (bytes, str):
        return
    if asked is outbox.Message:
        raise ConfigError(
            "the handler's first parameter is annotated with the Message of the outbox, which publishers are given; handlers are "
            "given a dupeproof.brokers.base.Message"
        )
    try:
        JsonCodec().prepare(asked)
    except ConfigError as exc:
        raise ConfigError(
            f"the handler's first parameter is annotated {getattr(asked, '__qualname__', asked)}, which no message can be "
            "read as; annotate it with Message, or with a dataclass, msgspec or pydantic model, or JSON-like type"
        ) from exc


def prepared(handler: Handler, wanted: Wanted, middleware: tuple[Middleware, ...], name: str) -> Handler:
    """The handler as consumers call it, with a message or a list of them: inside its middleware, and in a span."""
    call = _with_payload(handler, wanted)
    for layer in reversed(middleware):
        call = _around(layer, call)
    return _traced_async(call, name) if is_async(handler) else _traced(call, name)


def _with_payload(handler: Handler, wanted: Wanted) -> Handler:
    if wanted.payload is Message:
        return handler
    read = _reader(wanted.payload)

    def call(given: Any, *rest: Any) -> Any:
        if wanted.batch:
            return handler([read(message) for message in given], *rest)
        more = {_MESSAGE: given} if wanted.message else {}
        return handler(read(given), *rest, **more)

    return call


def _reader(kind: Any) -> Callable[[Message], Any]:
    if kind is bytes:
        return lambda message: message.body
    if kind is str:
        return lambda message: message.body.decode()
    decode = functools.partial(JsonCodec().decode, returns=kind)

    def read(message: Message) -> Any:
        try:
            return decode(message.body)
        except Unstorable as exc:
            raise Reject(f"the payload is no {getattr(kind, '__qualname__', kind)}: {_why(exc)}") from exc

    return read


def _why(exc: BaseException | None) -> str:
    """What is wrong, without the values: pydantic would show them."""
    said = "it cannot be read"
    while exc is not None:
        if hasattr(exc, "errors") and type(exc).__module__.startswith("pydantic"):
            faults = exc.errors(include_input=False, include_url=False, include_context=False)
            return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults)
        if isinstance(exc, msgspec.MsgspecError) and exc.__cause__ is None:
            said = str(exc)
        exc = exc.__cause__
    return said


def _around(layer: Middleware, inner: Handler) -> Handler:
    return lambda message, *rest: layer(message, lambda changed: inner(changed, *rest))


def _headers(given: Any) -> list[dict[str, str]]:
    return [each.headers for each in given] if isinstance(given, list) else [given.headers]


def _traced(handler: Handler, name: str) -> Handler:
    def call(given: Any, *rest: Any) -> Any:
        with processing(name, _headers(given)):
            return handler(given, *rest)

    return call


def _traced_async(handler: Handler, name: str) -> Handler:
    async def call(given: Any, *rest: Any) -> Any:
        with processing(name, _headers(given)):
            return await handler(given, *rest)

    return call
