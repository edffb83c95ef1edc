# Written by tools/twins.py from src/dupeproof/http/views_async.py; change that file instead.
"""The guard around one view: for frameworks in which we see requests and responses as objects, not as messages."""

from collections.abc import Callable
from typing import TypeVar

from dupeproof.core.events import logger
from dupeproof.guards.runtime import awaited
from dupeproof.http.answers import Answer
from dupeproof.http.exchange import Exchange
from dupeproof.http.fingerprints import Head
from dupeproof.http.handler_context import current
from dupeproof.http.problems import Refused, problem
from dupeproof.http.request_policy import RequestPolicy
from dupeproof.http.rules import Rules
from dupeproof.http.view_adapters import Framework, Incoming

R = TypeVar("R")


def guarded(policy: RequestPolicy, incoming: Incoming, framework: Framework[R], view: Callable[[], R]) -> R:
    """The response of the view, or the one to give in its place."""
    request = incoming.request
    if not policy.wants(incoming.method, request):
        return awaited(view())
    try:
        key = policy.find_key(incoming.header_values(policy.rules.header), request)
        if key is None:
            return awaited(view())
        whole_key = policy.whose(key, request)
        if whole_key is None:
            response: R = awaited(view())
            policy.unguarded(framework.status(response))
            return response
        if policy.is_inner(incoming.environ, whole_key):
            return awaited(view())
        body = incoming.body(policy.rules.request_limit)
        head = Head(incoming.method, incoming.path, incoming.query, body.content_type)
        compared = policy.compared(request, head, incoming.header_values, body.chunks)
    except Refused as refused:
        return framework.respond(problem(refused.code, the_key=policy.rules.the_key))
    exchange = policy.exchange(whole_key, compared)
    answer = exchange.begin(",".join(incoming.header_values("accept-encoding")) or None)
    if answer is not None:
        return framework.respond(policy.authorized(request, answer))
    # What is stored goes to others too, who may accept no coding: whatever compresses stands outside of us.
    accepts = incoming.environ.pop("HTTP_ACCEPT_ENCODING", None)
    try:
        return _run(exchange, framework, view, policy.rules)
    finally:
        if accepts is not None:
            incoming.environ["HTTP_ACCEPT_ENCODING"] = accepts


def _run(exchange: Exchange, framework: Framework[R], view: Callable[[], R], rules: Rules) -> R:
    token = current.set(exchange.handling)
    try:
        return _concluded(exchange, framework, awaited(view()), rules)
    except Exception as exc:
        if exchange.concluded:
            raise
        answer = exchange.failed(exc)
        if answer is None:
            raise
        if exchange.handling.done is None:
            logger.exception("A handler failed, and its key gets this answer from now on")
        return framework.respond(answer)
    except BaseException as exc:
        if not exchange.concluded:
            exchange.abandon(exc)
        raise
    finally:
        current.reset(token)


def _concluded(exchange: Exchange, framework: Framework[R], response: R, rules: Rules) -> R:
    if exchange.handling.done is not None:
        return framework.respond(exchange.repeat(exchange.handling.done))
    seen: Answer = awaited(framework.seen(response, rules))
    framework.add(response, exchange.conclude(seen.status, seen.headers, seen.body))
    return response
