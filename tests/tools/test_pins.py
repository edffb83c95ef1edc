"""Everything `make` installs has its version pinned, so that a fresh clone gets what CI had."""

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
KNOWN = sys.stdlib_module_names | {"dupeproof"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAB = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())


def wanted_by(requirement, extras):
    """Whether a requirement counts on this Python, with these extras of whoever has it."""
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in extras)


def everything(group):
    """What a group of ours needs, and what that needs."""
    return needed(PROJECT["dependency-groups"][group])


def needed(texts):
    left = [Requirement(text) for text in texts]
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
    assert (everything("dev") | needed(LAB["project"]["dependencies"])) - pinned == {"dupeproof"}


def test_examples_import_nothing_beyond_the_extra_that_has_all():
    extras = PROJECT["project"]["optional-dependencies"]
    ours, *unfolded = extras["all"]
    for extra in Requirement(ours).extras:
        unfolded += [text for text in extras[extra] if not text.startswith("dupeproof")]
    names = needed([*unfolded, *PROJECT["project"]["dependencies"]]) | {"dupeproof"}
    brings = packages_distributions()
    examples = [*(ROOT / "examples").rglob("*.py")]
    beside = {each.stem for each in examples}
    missing = {}
    for example in examples:
        for node in ast.walk(ast.parse(example.read_text())):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            for module in {each.partition(".")[0] for each in modules} - KNOWN - beside:
                if not names & {canonicalize_name(each) for each in brings.get(module, [])}:
                    missing[module] = example.name
    assert not missing
