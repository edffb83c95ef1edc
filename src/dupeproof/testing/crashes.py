"""Let your own code die where it hurts, from a test: `crash_at`, and `reached` for points of your own."""

from dupeproof.core.crashes import VARIABLE, Crashed, crash_at, points, reached

__all__ = ["VARIABLE", "Crashed", "crash_at", "points", "reached"]
