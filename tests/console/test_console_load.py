"""Ten thousand events a second arrive, three people watch: what it costs the process, and how long a page takes."""

import os
import re
import statistics
import threading
import time
from pathlib import Path
from urllib.request import urlopen

EVENTS = 10_000
SECONDS = 5
WATCHERS = 3


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(address, until, times, shown):
    """As a browser with the page open does: fetch it every second."""
    while time.monotonic() < until:
        began = time.monotonic()
        with urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        times.append(time.monotonic() - began)
        found = re.search(r"<dt>arriving a second</dt><dd>([\d,]+)</dd>", text)
        shown.extend([] if found is None else [int(found[1].replace(",", ""))])
        time.sleep(max(0.0, began + 1 - time.monotonic()))


def test_the_page_stays_responsive_at_ten_thousand_events_a_second(served, url, capsys):
    address, pid = served(url, CONSOLE_RATE=str(EVENTS))
    with urlopen(address, timeout=10):
        pass
    times, shown = [], []
    began, before = time.monotonic(), cpu_seconds(pid)
    until = began + SECONDS
    watchers = [threading.Thread(target=watch, args=(address, until, times, shown)) for _ in range(WATCHERS)]
    for each in watchers:
        each.start()
    for each in watchers:
        each.join()
    cores = (cpu_seconds(pid) - before) / (time.monotonic() - began)
    arrived = statistics.median(shown)
    with capsys.disabled():
        print(
            f"\n{arrived:,.0f} events/s shown, {WATCHERS} watchers: {cores:.2f} cores for guards, events and console; "
            f"{len(times)} pages, median {statistics.median(times) * 1_000:.0f} ms, longest {max(times) * 1_000:.0f} ms"
        )
    assert arrived > 0.9 * EVENTS  # they did arrive, and the page says so
    assert cores < 0.5
    assert statistics.median(times) < 0.5
