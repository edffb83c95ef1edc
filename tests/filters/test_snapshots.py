"""A snapshot is whole or not there, is read by other processes, and anything else is told apart."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dupeproof import ConfigError
from dupeproof.filters import Bloom, RotatingBloom

MAIN = Path(__file__).with_name("filters_snapshotting.py")
BATCH = 1_000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ids.bloom"


def test_a_bloom_comes_back_as_it_was(path):
    bloom = Bloom(10_000, 0.01)
    bloom.add_many(range(5_000))
    bloom.snapshot(path)
    again = Bloom.restore(str(path), accept_errors=True)
    assert again.stats() == bloom.stats()
    assert all(again.might_have_many(range(5_000)))
    probes = range(10_000, 60_000)
    assert again.might_have_many(probes) == bloom.might_have_many(probes)
    assert again.seen(7) is True
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with pytest.raises(ConfigError, match="accept_errors"):
        Bloom.restore(path).seen(7)


def test_a_rotating_one_comes_back_older_by_the_time_between(path):
    now = 50_000
    bloom = RotatingBloom(9_000, "3s", generations=4, clock=lambda: now)
    bloom.add_many(range(3_000))
    now += 1_500
    bloom.add_many(range(3_000, 4_000))
    bloom.snapshot(path, wall_clock=lambda: 1_700_000_000_000)
    # Another process, another boot of the machine: its steady clock says something else.
    for passed, first, second in [(0, 1, 1), (2_499, 1, 1), (2_500, 0, 1), (4_000, 0, 0), (-(10**9), 1, 1)]:
        wall = 1_700_000_000_000 + passed
        again = RotatingBloom.restore(path, clock=lambda: 7, wall_clock=lambda wall=wall: wall)
        assert all(again.might_have_many(range(3_000))) == bool(first), passed
        assert all(again.might_have_many(range(3_000, 4_000))) == bool(second), passed
        assert again.add("new") is True


def test_kill_9_at_any_moment_leaves_a_snapshot_that_can_be_read(path):
    Bloom(1_000_000).snapshot(path)
    for turn in range(6):
        process = subprocess.Popen([sys.executable, str(MAIN), str(path)], stdout=subprocess.PIPE, text=True)
        heard = [process.stdout.readline()]
        if turn == 0:
            heard.append(process.stdout.readline())  # one that got somewhere
        time.sleep(random.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        with process:
            safe = [int(line.split()[1]) for line in [*heard, *process.stdout] if line.startswith("safe")]
        assert safe or turn > 0
        bloom = Bloom.restore(path)  # of this process, or of the one before
        for number in safe:
            assert all(bloom.might_have_many(f"{number}-{n}" for n in range(BATCH)))


def test_a_write_that_fails_leaves_the_snapshot_of_before(path, tmp_path):
    bloom = Bloom(1_000)
    bloom.add("a")
    bloom.snapshot(path)
    bloom.add("b")
    with pytest.raises(FileNotFoundError):
        bloom.snapshot(tmp_path / "no such folder" / "ids.bloom")
    again = Bloom.restore(path)
    assert ("a" in again, "b" in again) == (True, False)


def test_damage_anywhere_is_found(path):
    bloom = Bloom(1_000)
    bloom.add_many(range(1_000))
    bloom.snapshot(path)
    data = path.read_bytes()
    for place in random.sample(range(len(data)), 50):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(ConfigError, match="start with an empty filter"):
            Bloom.restore(path)
    for length in (0, 5, 19, 30, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ConfigError, match="start with an empty filter"):
            Bloom.restore(path)


def test_what_is_not_for_us_is_told_apart(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        Bloom.restore(path)
    path.write_bytes(b"dupeproof filter 2\n and more")
    with pytest.raises(ConfigError, match="another version of dupeproof"):
        Bloom.restore(path)
    Bloom(10).snapshot(path)
    with pytest.raises(ConfigError, match=r"holds a Bloom; read it with Bloom\.restore"):
        RotatingBloom.restore(path)
    RotatingBloom(10, "1h").snapshot(path)
    with pytest.raises(ConfigError, match="holds a RotatingBloom"):
        Bloom.restore(path)


def test_bits_of_other_hash_functions_are_refused(path, monkeypatch):
    Bloom(10).snapshot(path)
    monkeypatch.setattr("dupeproof.filters.bloom_bits._PROBE", "hashed differently")
    with pytest.raises(ConfigError, match="fastbloom-rs"):
        Bloom.restore(path)
