"""The Lua scripts, each one atomic step of the contract, with the digest the server knows it by."""

from functools import cache
from hashlib import sha1
from importlib.resources import files

from msgspec import Struct

_USES_RECORDS = ("claim", "finish", "fail", "release", "renew")


class Script(Struct, frozen=True):
    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    folder = files(__package__).joinpath("scripts")
    text = folder.joinpath(f"{name}.lua").read_text()
    if name in _USES_RECORDS:
        text = folder.joinpath("record.lua").read_text() + text
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())
