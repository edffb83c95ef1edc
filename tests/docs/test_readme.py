"""The Python blocks of the README run, in order, as a reader would type them."""

import re
from pathlib import Path

import dupeproof

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def test_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out == "charging 500 for o-1\ncharging 5 for o-2\n"
    names["once"].close()
    names["cooldown"].close()


def test_the_first_block_is_a_whole_example():
    assert BLOCKS[0].startswith("from dupeproof import")
    assert set(re.findall(r"`(\w+)`", README.read_text())) & {"KeyReused", "Busy"} <= set(dupeproof.__all__)
