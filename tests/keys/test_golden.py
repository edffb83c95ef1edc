"""Ids made yesterday, elsewhere, must be made again today: the committed vectors never change."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keys_golden
import pytest

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", GOLDEN["payloads"])
def test_a_payload_has_the_form_and_the_ids_it_always_had(name):
    assert keys_golden.actual()["payloads"][name] == GOLDEN["payloads"][name]


@pytest.mark.parametrize("name", GOLDEN["order in contexts"])
def test_a_context_gives_the_id_it_always_gave(name):
    assert keys_golden.actual()["order in contexts"][name] == GOLDEN["order in contexts"][name]


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_another_process_with_another_hash_seed_makes_the_same(seed):
    run = subprocess.run(
        [sys.executable, keys_golden.__file__],
        env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
    )
    assert json.loads(run.stdout) == GOLDEN


def test_every_payload_is_in_the_committed_file():
    assert set(GOLDEN["payloads"]) == set(keys_golden.PAYLOADS)
    assert set(GOLDEN["order in contexts"]) == set(keys_golden.CONTEXTS)
