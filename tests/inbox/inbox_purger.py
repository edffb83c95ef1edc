"""A purger in a process of its own, switched on and off by lines on its standard input.

    python inbox_purger.py URL

Each line begins or ends a stretch of purging; after each end it says how many were removed, and in how many seconds.
"""

import sys
import time

from dupeproof.cleanup import Purger


def main():
    removed = []
    purger = Purger(sys.argv[1], every="1h", events=[lambda event: removed.append(event.count)])
    for _ in sys.stdin:
        began = time.perf_counter()
        purger.start()
        sys.stdin.readline()
        purger.stop()
        print(sum(removed), time.perf_counter() - began, flush=True)
        removed.clear()


main()
