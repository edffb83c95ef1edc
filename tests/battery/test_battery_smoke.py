"""A few cells of the battery with the checks that most often differ, for every run of the tests; all of it: `make battery`."""

import pytest
from battery_checks import CHECKS

SMOKE = [
    ("hypercorn-h2", "quart"),
    ("granian-asgi", "starlette"),
    ("waitress", "flask"),
    ("gunicorn-gevent", "django"),
]


@pytest.mark.parametrize("check", ["replay", "hang-up"])
@pytest.mark.parametrize("running_cell", SMOKE, ids="-".join, indirect=True)
def test_a_key_runs_once(cell, check):
    CHECKS[check](cell)
