"""Writes snapshots for ever, each of one more batch, and says after each what is safe. Run to be killed."""

import sys

from dupeproof.filters import Bloom

BATCH = 1_000

bloom = Bloom(1_000_000)
for number in range(10_000):
    bloom.add_many(f"{number}-{n}" for n in range(BATCH))
    print(f"begin {number}", flush=True)
    bloom.snapshot(sys.argv[1])
    print(f"safe {number}", flush=True)
