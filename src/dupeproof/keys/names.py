"""What may be a key or a namespace, and the digest under which a key is stored."""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from hashlib import blake2b
from typing import Any, TypeGuard
from uuid import UUID

from dupeproof.errors import ConfigError, KeyInvalid, KeyMissing
from dupeproof.keys.scalars import EXACT, is_uuid_class

Key = str | int | UUID
MAX_KEY_BYTES = 4096
DIGEST_SIZE = 16
_NEEDS_A_LOOK = "\0 \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
"""NUL, and white space, of which a key must not be made alone."""

_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_namespace(namespace: object) -> str:
    """The namespace, if it is one. It is chosen in code, so the error may show it."""
    if isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace):
        return namespace
    shown = repr(namespace) if isinstance(namespace, str) else f"of type {type(namespace).__qualname__}"
    raise ConfigError(
        f"namespace {shown:.80} is not usable; write 1 to 64 letters (a-z, A-Z), digits, '.', '_' or '-', e.g. 'billing'"
    )


def check_key(key: object) -> str:
    """The text of a user's key: str as it is, int in decimal, UUID in its usual form. Errors never show the key.

    So 5 and "5" are one key, and so are a UUID and its text: ids change type between services, not meaning. Text is
    compared exactly: no trimming, no change of case, no Unicode normalisation.
    """
    if (
        type(key) is str
        and key.isascii()
        and 0 < len(key) <= MAX_KEY_BYTES
        and "\0" not in key
        and not key.isspace()
    ):
        return key  # nearly every key; what is neither this nor a small number may take its time
    if type(key) is int and -EXACT <= key <= EXACT:
        return int.__repr__(key)
    return _check_text(_key_text(key))


def check_keys(keys: Iterable[Any]) -> list[str]:
    """`check_key` of each; of plain ones all at once, by what can be seen from their joined text."""
    chosen = list(keys)
    if list(map(type, chosen)).count(str) == len(chosen):
        text = "".join(chosen)
        if (
            text.isascii()
            and not any(character in text for character in _NEEDS_A_LOOK)
            and all(chosen)
            and max(map(len, chosen), default=0) <= MAX_KEY_BYTES
        ):
            return chosen
    return list(map(check_key, chosen))


def _key_text(key: object) -> str:
    if key is None:
        raise KeyMissing("the key is None; pass the id of the message, request or operation")
    if isinstance(key, Enum):
        raise KeyInvalid(f"a key cannot be a member of the enum {type(key).__qualname__}; pass its .value")
    if isinstance(key, str):
        return str.__str__(key)
    if is_uuid(key):
        return str(key)
    if isinstance(key, int) and not isinstance(key, bool):
        if key.bit_length() > 3 * MAX_KEY_BYTES:
            raise _too_long()
        return int.__repr__(key)
    fix = (
        "decode it first"
        if isinstance(key, bytes | bytearray | memoryview)
        else "pass a str, an int or a UUID"
    )
    raise KeyInvalid(f"a key cannot be of type {type(key).__qualname__}; {fix}")


def _check_text(text: str) -> str:
    if not text or text.isspace():
        raise KeyMissing("the key is empty; pass the id of the message, request or operation")
    if "\0" in text:
        raise KeyInvalid("the key contains a NUL character, which not every store can hold; remove it")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise KeyInvalid(
            "the key contains a lone surrogate, which has no UTF-8 form; decode it properly first"
        ) from None
    if size > MAX_KEY_BYTES:
        raise _too_long()
    return text


def _too_long() -> KeyInvalid:
    return KeyInvalid(f"the key is longer than {MAX_KEY_BYTES} bytes; pass content_id(...) of it instead")


def is_uuid(value: object) -> TypeGuard[UUID]:
    return is_uuid_class(type(value))


def key_digest(namespace: str) -> Callable[[str], bytes]:
    """A function from a key to its 16-byte digest in this namespace.

    The length of the namespace goes first, so that ("a", "bc") and ("ab", "c") are different. The hasher that has
    read the namespace is copied for each key, which is faster than hashing it again.
    """
    name = namespace.encode()
    read = blake2b(len(name).to_bytes(4, "big") + name, digest_size=DIGEST_SIZE)

    def digest(key: str) -> bytes:
        hasher = read.copy()
        hasher.update(key.encode())
        return hasher.digest()

    return digest
