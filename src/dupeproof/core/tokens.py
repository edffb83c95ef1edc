"""Tokens of claims."""

from os import urandom


def new_token() -> bytes:
    """8 bytes from the system: nothing a fork, a restored checkpoint or a copied machine could draw a second time."""
    return urandom(8)
