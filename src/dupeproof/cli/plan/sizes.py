"""Bytes and speeds as measured, and the rules to get from them to any size. Pure.

Bytes are from a million ids each (`dupeproof bench`) and from `measuring` with results of 0 to 5,000 random bytes; tests
compare them with real servers. Speeds are those of one core of the machine the tables of docs/performance.md are from: yours differ.
"""

from bisect import bisect_left
from collections.abc import Callable

from msgspec import Struct

MEGABYTE, GIGABYTE = 10**6, 10**9
_ALLOCATED = (
    *range(16, 129, 16),
    *(160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048),
    *(2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384),
)
"""Sizes that jemalloc, which Redis uses, hands out."""
_REDIS_ENTRY, _REDIS_HEADER = 132, 72
_POSTGRES_RECORD, _POSTGRES_INLINE, _POSTGRES_APART = 306, 1_950, 700
_SQLITE_RECORD, _SQLITE_PAGE = 148, 4_096


def redis_record(result: int) -> float:
    """Key, expiry and dictionary entry, then header and result in one string, rounded up by the allocator."""
    needed = _REDIS_HEADER + result
    place = bisect_left(_ALLOCATED, needed)
    return _REDIS_ENTRY + (_ALLOCATED[place] if place < len(_ALLOCATED) else needed * 1.06)


def postgres_record(result: int) -> float:
    """The row as finished, and a share of the one as claimed, which stays until the next vacuum.

    In between of what was measured for a million written in batches without a result: 355 bytes before a vacuum comes by, 280
    where one came meanwhile. Where vacuum keeps up, or calls come one by one so that the finished row finds room beside the
    claimed one, it is 210: the plan is on the safe side. A result of two kilobytes and more is kept apart, in pieces.
    """
    if result <= _POSTGRES_INLINE:
        return _POSTGRES_RECORD + result
    return _POSTGRES_RECORD + _POSTGRES_APART + 1.05 * result


def sqlite_record(result: int) -> float:
    """Rows stand in pages of four kilobytes; one that is larger than a quarter of it leaves much of the rest empty."""
    return _SQLITE_RECORD + result * (1.2 if result <= 200 else 1.4 if result <= 1_000 else 2.3)


class Way(Struct, frozen=True, kw_only=True):
    """One way to remember ids."""

    name: str
    where: str
    """Of what there must be enough: memory or disk."""
    bytes_per_id: Callable[[int], float]
    """From the size of a result; marks have none."""
    per_core: int
    """Ids a second, in batches, on one core."""
    keeps_results: bool
    durable: bool
    error: Callable[[int], float]
    """Of so many ids: the odds that a new one is taken for a duplicate."""
    node_bytes: float
    """What one node holds, of a usual size."""
    writes_per_id: float
    """Bytes of log, for a month's volume."""
    needs: str


def _digests(ids: int) -> float:
    """128 bits: the odds that the next one meets one of those that are there."""
    return ids / 2.0**128


WAYS = (
    Way(
        name="memory://, marks",
        where="memory",
        bytes_per_id=lambda _: 203,
        per_core=300_000,
        keeps_results=False,
        durable=False,
        error=lambda _: 0.0,
        node_bytes=16 * GIGABYTE,
        writes_per_id=0,
        needs="one process, and nothing to lose with it",
    ),
    Way(
        name="Bloom / RotatingBloom, 0.1 %",
        where="memory",
        bytes_per_id=lambda _: 1.8,
        per_core=2_000_000,
        keeps_results=False,
        durable=False,
        error=lambda _: 0.001,
        node_bytes=16 * GIGABYTE,
        writes_per_id=0,
        needs="one process, and one new id in a thousand taken for a duplicate",
    ),
    Way(
        name="sqlite:///, marks",
        where="disk",
        bytes_per_id=lambda _: 65,
        per_core=70_000,
        keeps_results=False,
        durable=True,
        error=_digests,
        node_bytes=200 * GIGABYTE,
        writes_per_id=4_096,
        needs="one machine",
    ),
    Way(
        name="sqlite:///, calls",
        where="disk",
        bytes_per_id=sqlite_record,
        per_core=9_000,
        keeps_results=True,
        durable=True,
        error=_digests,
        node_bytes=200 * GIGABYTE,
        writes_per_id=8_192,
        needs="one machine",
    ),
    Way(
        name="redis://, marks",
        where="memory",
        bytes_per_id=lambda _: 113,
        per_core=110_000,
        keeps_results=False,
        durable=True,
        error=_digests,
        node_bytes=24 * GIGABYTE,
        writes_per_id=80,
        needs="noeviction, appendonly; a fail-over can lose the last writes",
    ),
    Way(
        name="CompactSeen on Redis",
        where="memory",
        bytes_per_id=lambda _: 9.7,
        per_core=110_000,
        keeps_results=False,
        durable=True,
        error=lambda _: 500 * 2 / 2.0**64,
        node_bytes=24 * GIGABYTE,
        writes_per_id=40,
        needs="as Redis; the window ends in steps",
    ),
    Way(
        name="RedisBloom, 0.1 %",
        where="memory",
        bytes_per_id=lambda _: 1.82,
        per_core=50_000,
        keeps_results=False,
        durable=True,
        error=lambda _: 0.001,
        node_bytes=24 * GIGABYTE,
        writes_per_id=60,
        needs="one new id in a thousand taken for a duplicate",
    ),
    Way(
        name="redis://, calls",
        where="memory",
        bytes_per_id=redis_record,
        per_core=9_000,
        keeps_results=True,
        durable=True,
        error=_digests,
        node_bytes=24 * GIGABYTE,
        writes_per_id=400,
        needs="noeviction, appendonly; a fail-over can lose the last writes",
    ),
    Way(
        name="postgresql://, marks or inbox",
        where="disk",
        bytes_per_id=lambda _: 101,
        per_core=70_000,
        keeps_results=False,
        durable=True,
        error=_digests,
        node_bytes=1_000 * GIGABYTE,
        writes_per_id=250,
        needs="a purge that runs; partitions by time beyond some hundred millions",
    ),
    Way(
        name="postgresql://, calls",
        where="disk",
        bytes_per_id=postgres_record,
        per_core=9_000,
        keeps_results=True,
        durable=True,
        error=_digests,
        node_bytes=1_000 * GIGABYTE,
        writes_per_id=700,
        needs="a purge that runs",
    ),
)
