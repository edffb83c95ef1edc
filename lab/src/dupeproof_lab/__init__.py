"""What measures and tortures dupeproof, and starts real servers for tests. The library never imports it."""

__version__ = "0.1.0"
