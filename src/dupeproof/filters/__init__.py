"""Little memory, stated error: Bloom filters, compact sets and sequence numbers instead of a record per id."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dupeproof.core.sequences import Verdict
from dupeproof.errors import ConfigError
from dupeproof.filters._async.in_front import AsyncInFront
from dupeproof.filters._async.sequence import AsyncSequenceGuard
from dupeproof.filters._sync.in_front import InFront
from dupeproof.filters._sync.sequence import SequenceGuard
from dupeproof.filters.stats import FilterStats

if TYPE_CHECKING:
    from dupeproof.filters._async.compact import AsyncCompactSeen
    from dupeproof.filters._async.redis_bloom import AsyncRedisBloom
    from dupeproof.filters._sync.compact import CompactSeen
    from dupeproof.filters._sync.redis_bloom import RedisBloom
    from dupeproof.filters.bloom import Bloom
    from dupeproof.filters.rotating import RotatingBloom

_EXTRAS = {
    "AsyncCompactSeen": ("_async.compact", "redis", "redis"),
    "CompactSeen": ("_sync.compact", "redis", "redis"),
    "AsyncRedisBloom": ("_async.redis_bloom", "redis", "redis"),
    "Bloom": ("bloom", "bloom", "fastbloom_rs"),
    "RedisBloom": ("_sync.redis_bloom", "redis", "redis"),
    "RotatingBloom": ("rotating", "bloom", "fastbloom_rs"),
}
"""What needs more than dupeproof itself: its module, the extra to install, and the package that brings."""

__all__ = [
    "AsyncCompactSeen",
    "AsyncInFront",
    "AsyncRedisBloom",
    "AsyncSequenceGuard",
    "Bloom",
    "CompactSeen",
    "FilterStats",
    "InFront",
    "RedisBloom",
    "RotatingBloom",
    "SequenceGuard",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    if name not in _EXTRAS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra, package = _EXTRAS[name]
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != package:
            raise
        raise ConfigError(
            f'{name} needs {package}, which is not installed; run: pip install "dupeproof[{extra}]"'
        ) from exc
