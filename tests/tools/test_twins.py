"""The twin check compares whole files: a changed, truncated, missing or extra twin is found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path):
    """A copy of the tool and of one package with a twin."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src/dupeproof/core", tmp_path / "src/dupeproof/core")
    return tmp_path


def twins(project, *args):
    command = [sys.executable, "tools/twins.py", *args]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def check(project):
    return twins(project, "--check")


def test_what_is_checked_in_is_what_the_tool_writes():
    run = check(ROOT)
    assert run.returncode == 0, run.stdout


def test_a_truncated_twin_is_found_and_written_anew(project):
    twin = project / "src/dupeproof/core/contract.py"
    whole = twin.read_text()
    twin.write_text(whole[: len(whole) // 2])
    run = check(project)
    assert run.returncode == 1
    assert "contract.py" in run.stdout
    assert twins(project).returncode == 0
    assert twin.read_text() == whole


def test_a_missing_and_an_orphaned_twin_are_found(project):
    (project / "src/dupeproof/core/contract.py").unlink()
    (project / "src/dupeproof/core/orphan.py").write_text(
        "# Written by tools/twins.py from elsewhere\nx = 1\n"
    )
    run = check(project)
    assert run.returncode == 1
    assert "no source for src/dupeproof/core/orphan.py" in run.stdout
    assert "differs: src/dupeproof/core/contract.py" in run.stdout


def test_a_file_that_somebody_wrote_is_not_written_over(project):
    twin = project / "src/dupeproof/core/contract.py"
    twin.write_text("mine = 1\n")
    run = twins(project)
    assert run.returncode == 1
    assert "written by hand: src/dupeproof/core/contract.py" in run.stdout
    assert twin.read_text() == "mine = 1\n"
