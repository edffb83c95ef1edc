# Written by tools/twins.py from src/dupeproof/http/_async/views.py; change that file instead.
"""The guard around one view: for frameworks in which we see requests and responses as objects, not as messages."""

from collections.abc import Callable
from typing import TypeVar

from dupeproof.core.events import logger
from dupeproof.guards._sync.runtime import settle
from dupeproof.http._sync.desk import Desk
from dupeproof.http._sync.exchange import Exchange
from dupeproof.http.handling import current
from dupeproof.http.problems import Refused, problem
from dupeproof.http.views import Framework, Incoming

R = TypeVar("R")


def guarded(desk: Desk, incoming: Incoming, framework: Framework[R], view: Callable[[], R]) -> R:
    """The response of the view, or the one to give in its place."""
    request = incoming.request
    if not desk.wants(incoming.method, request):
        return settle(view())
    try:
        key = desk.find_key(incoming.key_values(desk.rules.header), request)
        if key is None:
            return settle(view())
        whole_key = desk.whose(key, request)
        if desk.is_inner(incoming.environ, whole_key):
            return settle(view())
        body = incoming.body(desk.rules.request_limit)
        compared = desk.compared(
            request, incoming.method, incoming.path, incoming.query, body.content_type, body.chunks
        )
    except Refused as refused:
        return framework.respond(problem(refused.code, the_key=desk.rules.the_key))
    exchange = desk.exchange(whole_key, compared)
    answer = exchange.begin()
    if answer is not None:
        return framework.respond(answer)
    token = current.set(exchange.handling)
    try:
        return _settled(exchange, framework, settle(view()), desk.rules.response_limit)
    except Exception as exc:
        if exchange.settled:
            raise
        answer = exchange.failed(exc)
        if answer is None:
            raise
        if exchange.handling.done is None:
            logger.exception("A handler failed, and its key gets this answer from now on")
        return framework.respond(answer)
    except BaseException as exc:
        if not exchange.settled:
            exchange.abandon(exc)
        raise
    finally:
        current.reset(token)


def _settled(exchange: Exchange, framework: Framework[R], response: R, limit: int) -> R:
    if exchange.handling.done is not None:
        return framework.respond(exchange.repeat(exchange.handling.done))
    seen = framework.seen(response, limit)
    framework.add(response, exchange.settle(seen.status, seen.headers, seen.body))
    return response
