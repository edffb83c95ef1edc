"""Every server with every framework, as a stranger would run them: `make battery`, or a part of it: ARGS='-k granian'.

Not named like a test, so that `make test` does not find it: it takes a quarter of an hour.
"""

from dataclasses import astuple

import pytest
from battery_bare import EXPECTED, measure
from battery_checks import CHECKS, checks_of, hang_up
from battery_servers import CELLS, SERVERS, Running
from battery_table import BEHAVIOUR, NOTE


def each_check():
    for cell in CELLS:
        name = "-".join(cell)
        for check in checks_of(*cell):
            marks = [pytest.mark.battery(name, check), pytest.mark.xdist_group(name)]
            yield pytest.param(cell, check, id=f"{name}-{check}", marks=marks)


@pytest.mark.parametrize(("running_cell", "check"), list(each_check()), indirect=["running_cell"])
def test_a_key_runs_once(cell, check, record_property):
    note = CHECKS[check](cell)
    if note is not None:
        record_property(NOTE, note)


@pytest.mark.parametrize("path", ["/orders/", "/sync/"], ids=["async", "sync"])
@pytest.mark.parametrize("framework", ["starlette", "django", "quart", "litestar"])
def test_daphne_may_cancel_a_handler_that_outlives_its_client_for_long(tmp_path, framework, path):
    """It does so after ten seconds, and then every second; here after one."""
    running = Running(tmp_path, "daphne", f"cell_{framework}", "--application-close-timeout", "1")
    try:
        running.start()
        hang_up(running, path, seconds=4)
    finally:
        running.kill()


@pytest.mark.parametrize(
    "bare",
    [pytest.param(server, marks=pytest.mark.battery(server)) for server in SERVERS],
    indirect=True,
)
def test_a_server_does_what_the_documentation_says(request, bare, record_property):
    measured = measure(bare)
    record_property(BEHAVIOUR, astuple(measured))
    assert measured == EXPECTED[request.node.callspec.params["bare"]]
