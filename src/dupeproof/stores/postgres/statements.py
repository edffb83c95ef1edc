"""The named statements of statements.sql."""

import re
from functools import cache
from importlib.resources import files


@cache
def _blocks() -> dict[str, str]:
    text = files(__package__).joinpath("statements.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {
        name: re.sub(r"^--.*\n?", "", block, flags=re.MULTILINE).strip()
        for name, block in zip(parts[::2], parts[1::2], strict=True)
    }


def statement(name: str) -> str:
    return _blocks()[name]
