"""What stores hold, as gauges for Prometheus: keys that are held or dead, and what waits in the outbox.

    from dupeproof.exporter import StoreCollector

    StoreCollector("postgresql://…")   # in the registry that the application shows anyway

`dupeproof exporter URL` serves the same as a process of its own. Both need the extra `metrics`.
"""

from dupeproof.exporter.collector import StoreCollector

__all__ = ["StoreCollector"]
