# Written by tools/twins.py from src/dupeproof/stores/redis/copies_async.py; change that file instead.
"""Copies in Redis of what another store has committed. A place is one key; its time is the key's own time to live.

r, token, milliseconds, fingerprint            reserved
k, length of the value, value, fingerprint     kept
x                                              barred
"""

from collections.abc import Sequence
from typing import Any

from dupeproof.core.records import Filling, Kept, Reservation
from dupeproof.stores.redis import layout
from dupeproof.stores.redis.client import Client
from dupeproof.stores.redis.lua import script
from dupeproof.stores.redis.resp import pack

_BARRED = b"x"


class RedisCopies:
    def __init__(self, client: Client) -> None:
        self._client = client

    def reserve(self, places: Sequence[Reservation]) -> list[Kept | None]:
        commands = [
            pack(
                b"SET",
                layout.place_key(place.key),
                _reserved(place.token) + place.window.to_bytes(8, "big") + place.fingerprint,
                *(b"NX", b"GET", b"PX", b"%d" % place.window),
            )
            for place in places
        ]
        return [_kept(reply) for reply in self._send(commands, [place.key for place in places])]

    def fill(self, fillings: Sequence[Filling]) -> None:
        self._fill(
            [
                (each.key, each.token, _value(each.value), _given(each.fingerprint), b"%d" % each.window)
                for each in fillings
            ]
        )

    def vacate(self, places: Sequence[Reservation]) -> None:
        self._fill([(place.key, place.token, b"", b"", b"0") for place in places])

    def bar(self, keys: Sequence[bytes], milliseconds: int) -> None:
        ttl = b"%d" % milliseconds
        self._send([pack(b"SET", layout.place_key(key), _BARRED, b"PX", ttl) for key in keys], keys)

    def clear(self, keys: Sequence[bytes]) -> None:
        self._send([pack(b"DEL", layout.place_key(key)) for key in keys], keys)

    def _fill(self, fillings: Sequence[tuple[bytes, bytes, bytes, bytes, bytes]]) -> None:
        filling = script("fill")
        calls = [([layout.place_key(key)], [_reserved(token), *rest]) for key, token, *rest in fillings]
        if calls:
            self._client.send(
                [filling.call(*call) for call in calls],
                [layout.tag(key) for key, *_ in fillings],
                in_full=lambda n: filling.in_full(*calls[n]),
            )

    def _send(self, commands: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:
        return self._client.send(commands, [layout.tag(key) for key in keys]) if commands else []


def _reserved(token: bytes) -> bytes:
    return b"r" + token


def _value(value: bytes) -> bytes:
    return b"k" + len(value).to_bytes(4, "big") + value


def _given(fingerprint: bytes | None) -> bytes:
    return b"" if fingerprint is None else b"=" + fingerprint


def _kept(reply: bytes | None) -> Kept | None:
    if reply is None or not reply.startswith(b"k"):
        return None
    end = 5 + int.from_bytes(reply[1:5], "big")
    return Kept(reply[5:end], reply[end:])
