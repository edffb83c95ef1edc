"""The statuses in the tables of the documentation are those of the table that the guard goes by."""

import re
from pathlib import Path

import pytest

from dupeproof.http.statuses import NOT_DONE, Fate, fate_of, of_errors

ROOT = Path(__file__).parents[2]
GIVEN_BACK = {
    "docs/howto/fastapi.md": re.compile(r"^\| (.*?) \| given back \|", re.MULTILINE),
    "docs/howto/http.md": re.compile(r"^\| (was sent elsewhere.*?) \| runs \|", re.MULTILINE),
}


@pytest.mark.parametrize("page", GIVEN_BACK)
def test_the_statuses_that_give_a_key_back_are_those_of_the_guard(page):
    rows = GIVEN_BACK[page].findall((ROOT / page).read_text())
    told = {int(number) for row in rows for number in re.findall(r"\b\d{3}\b", row)}
    assert told == NOT_DONE


def test_all_others_are_stored_but_for_those_of_errors():
    [stored] = re.findall(
        r"^\| (.*?) \| stored \|", (ROOT / "docs/howto/fastapi.md").read_text(), re.MULTILINE
    )
    assert stored == "2xx, 302, 303, and every 4xx that is not below"
    of_error = of_errors("reopen")
    for status in (*range(200, 300), 302, 303, *range(400, 500)):
        assert fate_of(status, of_error) is (Fate.RELEASE if status in NOT_DONE else Fate.STORE)
    assert {fate_of(status, of_error) for status in range(500, 600)} == {Fate.FAIL}  # as another attempt
