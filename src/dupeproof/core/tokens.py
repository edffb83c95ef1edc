"""Tokens of claims."""

from functools import partial
from os import urandom

new_token = partial(urandom, 8)
"""8 bytes from the system: nothing a fork, a restored checkpoint or a copied machine could draw a second time."""
