"""Tokens of claims: unique to this process and call, without asking the system for random bytes each time."""

import itertools
import os

_RANDOM, _COUNTED = 5, 3


class _Tokens:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._prefix = os.urandom(_RANDOM)
        self._numbers = itertools.count()

    def __call__(self) -> bytes:
        """8 bytes. Only compared, never guessed at or ordered, so a counter behind a random start is enough."""
        try:
            return self._prefix + next(self._numbers).to_bytes(_COUNTED, "big")
        except OverflowError:
            self.renew()
            return self()


new_token = _Tokens()
os.register_at_fork(after_in_child=new_token.renew)
