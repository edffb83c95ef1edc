"""W3C trace context on its way with a message: from the transaction that adds it to the handler that works on it.

OpenTelemetry is used where the application has imported it, and never imported for its own sake.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_SCOPE = "dupeproof"
_PARENT = "traceparent"


def outgoing() -> dict[str, str]:
    """`traceparent` and `tracestate` of the current span; nothing where there is none."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - as above
        TraceContextTextMapPropagator,
    )

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier


def processing(name: str, carriers: Sequence[Mapping[str, str]]) -> AbstractContextManager[Any]:
    """A span for work on one message, as a child of the span that sent it; of several, it has links to theirs."""
    if "opentelemetry.trace" not in sys.modules:
        return nullcontext()
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    senders = [TraceContextTextMapPropagator().extract(each) for each in carriers if _PARENT in each]
    tracer = trace.get_tracer(_SCOPE)
    if len(carriers) == 1 and senders:
        return tracer.start_as_current_span(
            f"process {name}", context=senders[0], kind=trace.SpanKind.CONSUMER
        )
    links = [trace.Link(trace.get_current_span(each).get_span_context()) for each in senders]
    return tracer.start_as_current_span(f"process {name}", links=links, kind=trace.SpanKind.CONSUMER)
