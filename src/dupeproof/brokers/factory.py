"""From what a user writes to a consumer of the right kind: threads for a plain handler, tasks for an async one."""

from collections.abc import Callable
from typing import Any

from dupeproof import defaults
from dupeproof.brokers.base import UNGUARDED, Handler
from dupeproof.brokers.consumer import Consumer
from dupeproof.brokers.consumer_async import AsyncConsumer
from dupeproof.brokers.options import ConsumeOptions, check_guard, check_known, check_middleware
from dupeproof.brokers.protocols import Source
from dupeproof.brokers.protocols_async import AsyncSource
from dupeproof.core.callables import is_async

AnyConsumer = Consumer | AsyncConsumer


def group_of(given: str | None, inbox: Any, once: Any) -> str:
    """Consumers of a group share the messages; it is that of the inbox, or the guard's namespace, unless given."""
    if given is not None:
        return given
    if once is UNGUARDED:
        return defaults.NAMESPACE
    return str(inbox.group if inbox is not None else once.namespace)


def make_consumer(
    source: Callable[[], Source],
    async_source: Callable[[], AsyncSource],
    handler: Handler,
    group: str | None,
    inbox: Any,
    once: Any,
    options: ConsumeOptions,
) -> AnyConsumer:
    check_known(options)
    check_guard(handler, inbox, once)
    options["middleware"] = check_middleware(handler, options.get("middleware", ()))
    group = group_of(group, inbox, once)
    if is_async(handler):
        return AsyncConsumer(async_source(), handler, group=group, inbox=inbox, once=once, **options)
    return Consumer(source(), handler, group=group, inbox=inbox, once=once, **options)
