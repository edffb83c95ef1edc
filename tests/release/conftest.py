"""What is released, built once, and a clean interpreter to try it with, which has nothing but what it asks for."""

import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    return folder


@pytest.fixture(scope="session")
def wheel(built):
    [wheel] = built.glob("*.whl")
    return wheel


def needed(requirement, found):
    """The distributions a requirement brings with it, by what their metadata say."""
    name = canonicalize_name(requirement.name)
    extras = frozenset(requirement.extras) or frozenset({""})
    if extras <= found.get(name, frozenset()):
        return
    found[name] = found.get(name, frozenset()) | extras | {""}
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": each}) for each in extras | {""}):
            needed(wanted, found)


class Clean:
    """An environment with the wheel, and beside it only what it requires, with the extra chosen."""

    def __init__(self, folder, wheel):
        self.folder = folder
        venv.create(folder / "venv", with_pip=False)
        self.python = folder / "venv/bin/python"
        command = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-deps", "--no-index"]
        subprocess.run([*command, wheel], check=True, capture_output=True, timeout=100)

    def libraries(self, extra):
        """What the wheel requires, with this extra."""
        return self.having(f"dupeproof[{extra}]" if extra else "dupeproof")

    def having(self, *requirements):
        """A folder of links to the libraries that pip would install for these words: no more of this environment is seen."""
        folder = self.folder / f"libraries-{'-'.join(requirements)}"
        if folder.exists():
            return folder
        folder.mkdir()
        found = {}
        for each in requirements:
            needed(Requirement(each), found)
        del found["dupeproof"]
        for name in found:
            for file in distribution(name).files or ():
                top = file.parts[0]
                if top != ".." and not (folder / top).is_symlink():
                    (folder / top).symlink_to(Path(distribution(name).locate_file(top)))
        return folder

    def run(self, *arguments, extra="", given=None):
        return subprocess.run(
            [self.python, *arguments],
            env={"PYTHONPATH": str(self.libraries(extra)), "PATH": "/usr/bin:/bin"},
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture(scope="session")
def clean(tmp_path_factory, wheel):
    return Clean(tmp_path_factory.mktemp("clean"), wheel)
