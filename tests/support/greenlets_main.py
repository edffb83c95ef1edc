"""Greenlets in place of threads: greenlets_main.py (gevent|eventlet) URL. Prints how often each key ran."""

import sys

if sys.argv[1] == "gevent":
    from gevent import monkey

    monkey.patch_all()
    from gevent.pool import Pool
else:
    import eventlet

    eventlet.monkey_patch()
    from eventlet.greenpool import GreenPool as Pool

import json
import time
from collections import Counter

from dupeproof import Once

KEYS = [f"key-{number}" for number in range(25)]


def main() -> None:
    runs: Counter[str] = Counter()

    def work(key: str) -> str:
        runs[key] += 1
        time.sleep(0.01)  # to another greenlet
        return key

    with Once(sys.argv[2], on_busy="wait", wait="30s", lease="1s") as once:
        once.seen("before")
        pool = Pool(20)
        answers = list(pool.imap(lambda key: once.run(key, work, key), KEYS * 4))
        assert sorted(answers) == sorted(KEYS * 4)
        time.sleep(0.2)  # connections go stale, or do not
        assert once.run("after", lambda: "ran") == "ran"
    print(json.dumps(runs))


main()
