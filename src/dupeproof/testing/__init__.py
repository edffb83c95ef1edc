"""What users need to test their own code with dupeproof: real servers for a test run, and crashes at chosen points."""

from dupeproof.testing.crashes import Crashed, crash_at, points, reached

__all__ = ["Crashed", "crash_at", "points", "reached"]
