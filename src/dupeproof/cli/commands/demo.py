"""`dupeproof demo`."""


def demo() -> None:
    """Demo."""
