"""Run commands in this process and see what they print."""

from typing import NamedTuple

import msgspec
import pytest

from dupeproof.cli.app import run


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return msgspec.json.decode(self.out)


@pytest.fixture
def dupeproof(capsys, monkeypatch):
    monkeypatch.delenv("DUPEPROOF_URL", raising=False)

    def command(*arguments):
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return command


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/dedup.db?synchronous=normal"
