"""The guard around one view: for frameworks in which we see requests and responses as objects, not as messages."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from dupeproof.core.events import logger
from dupeproof.guards.runtime_async import awaited
from dupeproof.http.answers import Answer
from dupeproof.http.exchange_async import AsyncExchange
from dupeproof.http.fingerprints import Head
from dupeproof.http.handler_context import current
from dupeproof.http.problems import Refused, problem
from dupeproof.http.request_policy_async import AsyncRequestPolicy
from dupeproof.http.rules import Rules
from dupeproof.http.view_adapters import Framework, Incoming

R = TypeVar("R")


async def guarded(
    policy: AsyncRequestPolicy, incoming: Incoming, framework: Framework[R], view: Callable[[], Awaitable[R]]
) -> R:
    """The response of the view, or the one to give in its place."""
    request = incoming.request
    if not policy.wants(incoming.method, request):
        return await awaited(view())
    try:
        key = policy.find_key(incoming.header_values(policy.rules.header), request)
        if key is None:
            return await awaited(view())
        whole_key = await policy.whose(key, request)
        if whole_key is None:
            response: R = await awaited(view())
            policy.unguarded(framework.status(response))
            return response
        if policy.is_inner(incoming.environ, whole_key):
            return await awaited(view())
        body = incoming.body(policy.rules.request_limit)
        head = Head(incoming.method, incoming.path, incoming.query, body.content_type)
        compared = policy.compared(request, head, incoming.header_values, body.chunks)
    except Refused as refused:
        return framework.respond(problem(refused.code, the_key=policy.rules.the_key))
    exchange = policy.exchange(whole_key, compared)
    answer = await exchange.begin(",".join(incoming.header_values("accept-encoding")) or None)
    if answer is not None:
        return framework.respond(await policy.authorized(request, answer))
    # What is stored goes to others too, who may accept no coding: whatever compresses stands outside of us.
    accepts = incoming.environ.pop("HTTP_ACCEPT_ENCODING", None)
    try:
        return await _run(exchange, framework, view, policy.rules)
    finally:
        if accepts is not None:
            incoming.environ["HTTP_ACCEPT_ENCODING"] = accepts


async def _run(
    exchange: AsyncExchange, framework: Framework[R], view: Callable[[], Awaitable[R]], rules: Rules
) -> R:
    token = current.set(exchange.handling)
    try:
        return await _concluded(exchange, framework, await awaited(view()), rules)
    except Exception as exc:
        if exchange.concluded:
            raise
        answer = await exchange.failed(exc)
        if answer is None:
            raise
        if exchange.handling.done is None:
            logger.exception("A handler failed, and its key gets this answer from now on")
        return framework.respond(answer)
    except BaseException as exc:
        if not exchange.concluded:
            await exchange.abandon(exc)
        raise
    finally:
        current.reset(token)


async def _concluded(exchange: AsyncExchange, framework: Framework[R], response: R, rules: Rules) -> R:
    if exchange.handling.done is not None:
        return framework.respond(await exchange.repeat(exchange.handling.done))
    seen: Answer = await awaited(framework.seen(response, rules))
    framework.add(response, await exchange.conclude(seen.status, seen.headers, seen.body))
    return response
