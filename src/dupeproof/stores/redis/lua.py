"""The Lua scripts, each one atomic step of the contract, with the digest the server knows it by."""

from functools import cache
from hashlib import sha1
from importlib.resources import files

from msgspec import Struct

from dupeproof.stores.redis.resp import pack, pack_call

_PARTS = {
    "claim": ["claim_at_once", "record", "claim"],
    "resolve": ["now", "record", "resolve"],
    "release": ["now", "record", "release"],
    "renew": ["now", "record", "renew"],
}
_CLOSES_CLAIMS = ("finish", "resolve", "release", "renew")
_ALLOWED_WHEN_FULL = b"#!lua flags=allow-oom\n"
"""A server at its memory limit may refuse new claims, but must let those that are open come to their end."""


class Script(Struct, frozen=True):
    text: bytes
    sha: bytes

    def call(self, keys: list[bytes], args: list[bytes]) -> bytes:
        """The script by its digest, which the server knows once it has run."""
        return pack_call(self.sha, keys, args)

    def in_full(self, keys: list[bytes], args: list[bytes]) -> bytes:
        return pack(b"EVAL", self.text, b"%d" % len(keys), *keys, *args)


@cache
def script(name: str) -> Script:
    folder = files(__package__).joinpath("scripts")
    text = b"".join(folder.joinpath(f"{part}.lua").read_bytes() for part in _PARTS.get(name, [name]))
    if name in _CLOSES_CLAIMS:
        text = _ALLOWED_WHEN_FULL + text
    return make_script(text)


def make_script(text: bytes) -> Script:
    return Script(text, sha1(text, usedforsecurity=False).hexdigest().encode())
