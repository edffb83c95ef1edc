"""Listeners that turn events into metrics, spans and log lines. Give them to anything that takes `events=`.

    from dupeproof.metrics.prometheus import PrometheusListener
    once = Once("redis://…", events=[PrometheusListener()])

`dupeproof.metrics.prometheus`, `.otel` and `.logs`; each needs its own extra, and is imported by path.
"""
