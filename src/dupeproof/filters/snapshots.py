"""A filter as a file: whole or not there. What was there before stays until the new one is safe on disk."""

import os
from hashlib import blake2b
from pathlib import Path

import msgspec

from dupeproof.errors import ConfigError

_FAMILY = b"dupeproof filter "
_MAGIC = _FAMILY + b"1\n"
_CHECK = 16


class SavedPart(msgspec.Struct, frozen=True, array_like=True):
    bits: bytes
    hashes: int
    probe: list[int]
    added: int
    age: int = 0
    """Milliseconds since it was opened."""
    closed: int | None = None
    """Milliseconds since it was closed; None for the one in use."""


class Saved(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    capacity: int
    error_rate: float
    parts: list[SavedPart]
    window: int = 0
    generations: int = 1
    saved_at: int = 0


def write(path: Path | str, saved: Saved) -> None:
    """Write beside it, then take its place. A process that dies on the way leaves the file of before."""
    target = Path(path)
    body = msgspec.msgpack.encode(saved)
    # By process, so that two do not write into each other's, and one that dies often leaves one behind, not many.
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    with beside.open("wb") as file:
        file.write(_MAGIC + _checksum(body) + body)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path | str, kind: str) -> Saved:
    data = Path(path).read_bytes()
    if not data.startswith(_MAGIC):
        what = (
            "was written by another version of dupeproof"
            if data.startswith(_FAMILY)
            else "is not the snapshot of a filter"
        )
        raise _unusable(path, what)
    check, body = data[len(_MAGIC) : len(_MAGIC) + _CHECK], data[len(_MAGIC) + _CHECK :]
    if _checksum(body) != check:
        raise _unusable(path, "is damaged")
    saved = msgspec.msgpack.decode(body, type=Saved)
    if saved.kind != kind:
        raise ConfigError(f"{path} holds a {saved.kind}; read it with {saved.kind}.restore")
    return saved


def other_hashes(path: Path | str) -> ConfigError:
    return _unusable(path, "was written with a version of fastbloom-rs that hashes differently")


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=_CHECK).digest()


def _unusable(path: Path | str, what: str) -> ConfigError:
    return ConfigError(f"{path} {what}; remove it and start with an empty filter, or restore a backup")
