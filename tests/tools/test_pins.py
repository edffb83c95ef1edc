"""Everything `make` installs has its version pinned, so that a fresh clone gets what CI had."""

import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def wanted_by(requirement, extras):
    """Whether a requirement counts on this Python, with these extras of whoever has it."""
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in extras)


def everything(group):
    """What a group of ours needs, and what that needs."""
    left = [Requirement(text) for text in PROJECT["dependency-groups"][group]]
    found = set()
    while left:
        requirement = left.pop()
        name, extras = canonicalize_name(requirement.name), frozenset({"", *requirement.extras})
        if (name, extras) not in found:
            found.add((name, extras))
            asked = map(Requirement, requires(name) or ())
            left += [each for each in asked if wanted_by(each, extras)]
    return {name for name, _ in found}


def test_what_the_development_needs_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if not line.startswith("#")}
    assert everything("dev") - pinned == {"dupeproof"}
