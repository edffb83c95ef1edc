"""What a token is made of, and how a forged one is recognised. Pure.

    dt1.default.<id, expiry and context, 40 bytes>.<HMAC-SHA256 of all before>

The context is not in it, only its keyed digest: whoever holds a token cannot read or guess what it is good for.
"""

import hmac
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError, TokenForged
from dupeproof.keys.canonical import canonical

Secret = str | bytes
VERSION = "dt1"
ONLY_KEY = "default"
"""The key id of a secret that was given alone, for whoever adds a second one later."""
_SHORTEST_SECRET = 16
_ID, _EXPIRY, _CONTEXT = 16, 8, 16
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_FORM = re.compile(
    rf"{VERSION}\.([A-Za-z0-9_-]{{1,32}})\.([A-Za-z0-9_-]{{54}})\.([A-Za-z0-9_-]{{43}})", re.ASCII
)
_FORGED = "this is not a token made with any of these secrets, or it was changed on its way"


class TokenStatus(StrEnum):
    UNUSED = "unused"
    USED = "used"
    EXPIRED = "expired"
    FORGED = "forged"


class Token(Struct, frozen=True):
    """One whose signature is right."""

    id: bytes
    expires_at: int
    context: bytes
    key_id: str


class Signer:
    """Signs with the last of its secrets, and knows the tokens of all of them.

    The namespace is signed too: where marks are kept apart, a token that was good in both would be good twice.
    """

    def __init__(self, secret: Secret | Mapping[str, Secret], namespace: str = "") -> None:
        self._secrets = _checked(secret)
        self._purpose = f"token\0{namespace}\0"
        self._newest = next(reversed(self._secrets))

    def issue(self, context: Mapping[str, Any], ttl: Duration, now: int) -> str:
        lifetime = milliseconds(ttl, name="ttl")
        body = (
            os.urandom(_ID) + (now + lifetime).to_bytes(_EXPIRY, "big") + self._bound(context, self._newest)
        )
        text = f"{VERSION}.{self._newest}.{_encoded(body)}"
        return f"{text}.{self._signature(text, self._newest)}"

    def read(self, token: object) -> Token:
        """The parts of a token; anything that was not signed with one of the secrets is refused."""
        form = _FORM.fullmatch(token) if isinstance(token, str) else None
        if form is None or form[1] not in self._secrets:
            raise TokenForged(_FORGED)
        key_id, body, signature = form.groups()
        if not hmac.compare_digest(self._signature(f"{VERSION}.{key_id}.{body}", key_id), signature):
            raise TokenForged(_FORGED)
        data = urlsafe_b64decode(body + "==")
        expires_at = int.from_bytes(data[_ID : _ID + _EXPIRY], "big")
        return Token(data[:_ID], expires_at, data[_ID + _EXPIRY :], key_id)

    def is_bound_to(self, token: Token, context: Mapping[str, Any]) -> bool:
        """Whether the context is the same, whole: a field left out is another context."""
        return hmac.compare_digest(token.context, self._bound(context, token.key_id))

    def _bound(self, context: object, key_id: str) -> bytes:
        if not isinstance(context, Mapping):
            raise ConfigError(
                "the context of a token is a dict of what it is good for, such as {'user': 1, 'action': 'order'}; "
                f"got a {type(context).__qualname__}"
            )
        text = b"context\0" + canonical(dict(context), name="context")
        return hmac.digest(self._secrets[key_id], text, "sha256")[:_CONTEXT]

    def _signature(self, text: str, key_id: str) -> str:
        return _encoded(hmac.digest(self._secrets[key_id], (self._purpose + text).encode(), "sha256"))


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _checked(secret: object) -> dict[str, bytes]:
    given = secret if isinstance(secret, Mapping) else {ONLY_KEY: secret}
    if not given:
        raise ConfigError("secret= has no key in it; give a text, or a dict such as {'k1': '…'}")
    checked = {}
    for key_id, value in given.items():
        if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
            raise ConfigError("the ids of secrets are 1 to 32 letters, digits, '_' or '-', such as 'k1'")
        if not isinstance(value, str | bytes):
            raise ConfigError(
                f"the secret {key_id!r} must be a text or bytes; got a {type(value).__qualname__}"
            )
        data = value.encode() if isinstance(value, str) else value
        if len(data) < _SHORTEST_SECRET:
            raise ConfigError(
                f"the secret {key_id!r} has fewer than {_SHORTEST_SECRET} bytes and could be guessed; "
                "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        checked[key_id] = data
    return checked
