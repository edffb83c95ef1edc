"""What an example imports, its reader has after the command that the README of the examples tells."""

import ast
import re
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXAMPLES = Path(__file__).parents[2] / "examples"
README = (EXAMPLES / "README.md").read_text()
COMMANDS = re.findall(r"^pip install (.+?)\s*&& python examples/(\S+)", README, re.MULTILINE)


def installed(*wanted: str) -> set[str]:
    """These distributions, and all that they bring."""
    todo = [Requirement(each) for each in wanted]
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                needed = requires(name) or []
            except PackageNotFoundError:
                continue  # for another system, or another Python
            for each in map(Requirement, needed):
                if each.marker is None or each.marker.evaluate({"extra": extra}):
                    todo.append(each)
    return {name for name, _ in seen}


def imported(file: Path) -> set[str]:
    """Modules that are neither Python's own nor the example's, also those of its neighbours that it imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            top = name.partition(".")[0]
            neighbour = file.with_name(f"{top}.py")
            if neighbour.exists():
                found |= imported(neighbour)
            elif top not in sys.stdlib_module_names:
                found.add(top)
    return found


@pytest.mark.parametrize(("packages", "file"), COMMANDS, ids=lambda each: each.replace(" ", "+"))
def test_an_example_imports_only_what_its_command_installs(packages, file):
    there = installed(*(each.strip('"') for each in packages.split()))
    distributions = packages_distributions()
    missing = {
        name
        for name in imported(EXAMPLES / file)
        if there.isdisjoint(map(canonicalize_name, distributions.get(name, [name])))
    }
    assert not missing


def test_every_example_has_a_command():
    told = {file for _, file in COMMANDS}
    scripts = {
        str(file.relative_to(EXAMPLES)) for file in EXAMPLES.rglob("*.py") if "__main__" in file.read_text()
    }
    assert scripts <= told
