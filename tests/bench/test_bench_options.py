"""What the command refuses, in one line that says what to do."""

import pytest

from dupeproof.cli.app import run


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--only", "mysql"], "--only knows memory, sqlite, redis, postgres; not 'mysql'"),
        (["--only", ""], "--only knows"),
        (["--pin", "both"], "--pin takes same, cross, none; not 'both'"),
        (["--rounds", "4"], "greater than or equal to 5"),
        (["--only", "redis", "--redis-url", "redis+cluster://:secret@h:1"], "takes a single Redis"),
        (["--scaling", "--redis-url", "redis://:secret@h:1/0"], "--scaling fills servers of its own"),
    ],
)
def test_a_wrong_option_is_refused(capsys, words, text):
    assert run(["bench", *words]) == 2
    complaint = capsys.readouterr().err
    assert text in complaint
    assert "secret" not in complaint


def test_a_given_server_that_is_down_is_an_error_and_not_a_row_without_figures(capsys, tmp_path):
    words = ["--quick", "--only", "redis", "--redis-url", "redis://:secret@127.0.0.1:1/0"]
    assert run(["bench", *words, "--out", str(tmp_path)]) == 2
    complaint = capsys.readouterr().err
    assert "the redis that was given cannot be measured" in complaint
    assert "secret" not in complaint
