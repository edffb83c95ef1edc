"""Little memory, stated error: Bloom filters, compact sets and sequence numbers instead of a record per id."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dupeproof.core.sequences import Verdict
from dupeproof.errors import ConfigError
from dupeproof.filters.in_front import InFront
from dupeproof.filters.in_front_async import AsyncInFront
from dupeproof.filters.sequence import SequenceGuard
from dupeproof.filters.sequence_async import AsyncSequenceGuard
from dupeproof.filters.stats import FilterStats

if TYPE_CHECKING:
    from dupeproof.filters.bloom import Bloom
    from dupeproof.filters.compact import CompactSeen
    from dupeproof.filters.compact_async import AsyncCompactSeen
    from dupeproof.filters.redis_bloom import RedisBloom
    from dupeproof.filters.redis_bloom_async import AsyncRedisBloom
    from dupeproof.filters.rotating_bloom import RotatingBloom

_EXTRAS = {
    "AsyncCompactSeen": ("compact_async", "redis", "redis"),
    "CompactSeen": ("compact", "redis", "redis"),
    "AsyncRedisBloom": ("redis_bloom_async", "redis", "redis"),
    "Bloom": ("bloom", "bloom", "fastbloom_rs"),
    "RedisBloom": ("redis_bloom", "redis", "redis"),
    "RotatingBloom": ("rotating_bloom", "bloom", "fastbloom_rs"),
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
