"""The torture as a command, for tests."""

import json
from pathlib import Path

import pytest

from dupeproof.cli.app import run

HERE = Path(__file__).parent


@pytest.fixture
def torture(tmp_path, monkeypatch, capsys):
    """Its exit code and what it says as JSON, or the text of its error; handlers are found where the tests are."""
    monkeypatch.chdir(HERE)
    monkeypatch.setenv("TORTURE_DB", str(tmp_path / "done.db"))

    def run_it(*arguments):
        code = run(["torture", "--json", "--out", str(tmp_path / "out"), *arguments])
        said = json.loads(capsys.readouterr().out)
        return code, said.get("error", said)

    return run_it
