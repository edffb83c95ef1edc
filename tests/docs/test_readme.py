"""The README: its example runs as a reader would type it, its links lead somewhere, and it stays short."""

import re
from pathlib import Path

import dupeproof

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def slug(heading):
    """As GitHub and mkdocs name a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out == "charging 500 for o-1\n"
    names["once"].close()


def test_the_first_block_is_a_whole_example():
    assert BLOCKS[0].startswith("from dupeproof import")
    assert {"KeyReused", "Busy"} <= set(re.findall(r"`(\w+)`", README)) & set(dupeproof.__all__)


def test_the_readme_is_no_manual():
    assert len(README.splitlines()) <= 150


def test_architecture_is_a_map():
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= 12_000


def test_links_lead_to_files_and_headings():
    for page in ("README.md", "ARCHITECTURE.md"):
        for link in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text()):
            path, _, heading = link.partition("#")
            text = (ROOT / path).read_bytes()
            if heading:
                assert heading in map(slug, re.findall(r"^#+ (.*)", text.decode(), re.MULTILINE)), link


def test_files_named_in_architecture_and_decisions_are_there():
    for page in (ROOT / "ARCHITECTURE.md", *(ROOT / "docs/decisions").glob("*.md")):
        for path in re.findall(r"`([a-z_]+/[\w/]*(?:\.(?:py|sql|lua))?)`", page.read_text()):
            assert (ROOT / "src/dupeproof" / path).exists() or (ROOT / path).exists(), (page.name, path)


def test_every_decision_has_its_three_parts():
    pages = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert re.findall(r"^## (.*)", page.read_text(), re.MULTILINE) == ["Context", "Decision", "Price"], (
            page
        )
