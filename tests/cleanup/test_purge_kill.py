"""A purge killed anywhere loses nothing: what is gone had expired, the rest is there for the next one."""

import os
import signal
import subprocess
import sys

from cleanup_waiting import until

from dupeproof.cleanup import Purger
from dupeproof.core.records import Mark
from dupeproof.stores import open_store

PURGING = """
import sys
from dupeproof.cleanup import Purger

Purger(sys.argv[1], batch=5).run_once(progress=lambda removed: print(removed, flush=True))
"""


def test_a_killed_purge_goes_on_where_it_was(tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db?synchronous=normal"
    store = open_store(url)
    lasting = [os.urandom(16) for _ in range(500)]
    store.mark([Mark(key, window=3_600_000) for key in lasting])
    store.mark([Mark(os.urandom(16), window=1) for _ in range(2_000)])
    until(lambda: store.stats().expired == 2_000)

    removed = 0
    for life in range(1, 6):
        purging = subprocess.Popen([sys.executable, "-c", PURGING, url], stdout=subprocess.PIPE)
        for _ in range(life):
            purging.stdout.readline()
        purging.send_signal(signal.SIGKILL)
        purging.communicate()
        before, removed = removed, 2_000 - store.stats().expired
        assert removed >= before + 5 * life
        assert removed % 5 == 0, "half a batch was removed"

    assert removed + Purger(store, batch=5, pause=0).run_once().removed == 2_000
    assert None not in store.marks(lasting)
    store.close()
