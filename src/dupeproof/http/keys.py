"""The key of a request: read from its header, and joined with whose it is."""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from dupeproof.errors import KeyInvalid, KeyMissing
from dupeproof.http.problems import Code, Refused
from dupeproof.keys.names import check_key

LONGEST_KEY = 255
_BARE = re.compile(r"[\x20\x21\x23-\x2b\x2d-\x7e]+")
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_ESCAPED = re.compile(r'\\(["\\])')


class Shared(Enum):
    SHARED = "SHARED"


SHARED: Final = Shared.SHARED
"""In place of a scope: all who call share one space of keys, because there is only one of them, or they may."""


def parse_key(values: Sequence[str]) -> str | None:
    """The key out of all headers of that name; None without any. `"abc"` (RFC 8941) and `abc` are the same key."""
    if not values:
        return None
    if len(values) > 1:
        raise Refused(Code.KEY_MALFORMED)
    text = values[0].strip(" \t")
    if _BARE.fullmatch(text):
        if len(text) > LONGEST_KEY:
            raise Refused(Code.KEY_TOO_LONG)
        return text
    if quoted := _QUOTED.fullmatch(text):
        return check_found(_ESCAPED.sub(r"\1", quoted[1]))
    raise Refused(Code.KEY_MALFORMED)


def check_found(key: object) -> str:
    """A key from wherever it came: of the kinds that a guard takes, and no longer than one in a header."""
    if isinstance(key, str) and len(key) > LONGEST_KEY:
        raise Refused(Code.KEY_TOO_LONG)
    try:
        return check_key(key)
    except KeyInvalid as exc:
        raise Refused(Code.KEY_MALFORMED) from exc


def key_for(scope: object, key: str) -> str:
    """The whole key, as `Once.get`, `resolve`, `forget` and the command line take it."""
    if scope is SHARED:
        return f"*:{key}"
    try:
        owner = check_key(scope)
    except KeyMissing as exc:
        raise KeyMissing("scope= gave nothing, so strangers would share their answers") from exc
    except KeyInvalid as exc:
        raise KeyInvalid(f"scope= gave what cannot be one: {exc}") from exc
    # The length goes first, so that no scope and key together look like another pair.
    return f"{len(owner)}:{owner}:{key}"
