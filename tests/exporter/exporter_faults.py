"""Calls that leave a doubt."""

import pytest


class Doubtful(Exception):
    """It may have happened."""


def doubtful():
    raise Doubtful


def hold(once, *keys):
    for key in keys:
        with pytest.raises(Doubtful):
            once.run(key, doubtful)
