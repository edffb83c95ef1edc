"""A process that writes ids with short and long windows, many times over, and then says which should be left.

The dangerous ones are the revived: known, expired, and then new again under the same id, while the purge may be
holding the row of before.
"""

import json
import sys
import time

from dupeproof import Once

ROUNDS = 150
SHORT, LONG = "60ms", "1h"


def main() -> None:
    url = sys.argv[1]
    brief, lasting = Once(url, namespace="purge", window=SHORT), Once(url, namespace="purge", window=LONG)
    # Its lease is over long before the test is, and nobody resolves it: it must outlive every purge.
    holding = Once(url, namespace="purge", window=SHORT, lease="50ms", on_abandoned="hold")
    live_marks, live_records, gone_marks, gone_records = set(), set(), set(), set()

    def revive(turn: int) -> None:
        for old in sorted(gone_marks)[turn % 7 :: 25]:
            if not lasting.seen(old):
                gone_marks.remove(old)
                live_marks.add(old)
        for old in sorted(gone_records)[turn % 7 :: 25]:
            if not lasting.attempt(old, lambda: 2).replayed:
                gone_records.remove(old)
                live_records.add(old)

    with brief, lasting, holding:
        for n in range(ROUNDS):
            assert not brief.seen(f"brief-{n}")
            assert not lasting.seen(f"lasting-{n}")
            brief.run(f"brief-{n}", lambda: 1)
            lasting.run(f"lasting-{n}", lambda: 1)
            gone_marks.add(f"brief-{n}")
            gone_records.add(f"brief-{n}")
            live_marks.add(f"lasting-{n}")
            live_records.add(f"lasting-{n}")
            if n % 30 == 0:
                holding.claim(f"held-{n}").acquire()
                live_records.add(f"held-{n}")
            revive(n)
        time.sleep(0.07)  # a fast machine has been through before any was over
        revive(0)
    ids = {
        "live_marks": sorted(live_marks),
        "live_records": sorted(live_records),
        "gone_marks": sorted(gone_marks),
        "gone_records": sorted(gone_records),
    }
    print(json.dumps(ids))


main()
