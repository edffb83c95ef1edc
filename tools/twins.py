"""Write the sync twin of every async source beside it, `once.py` of `once_async.py`; with --check compare them whole.

A source that has no natural sync twin (threads are not tasks) starts with the line `# No twin: <why>`; where it has a
counterpart, that is written by hand and starts the same way.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "dupeproof"
SUFFIX = "_async"
BY_HAND = "# No twin:"
WRITTEN = "# Written by tools/twins.py"
HEADER = WRITTEN + " from {source}; change that file instead.\n"

SUBSTITUTIONS = [
    (r"\bfrom redis\.asyncio", "from redis"),
    (r"\bimport redis\.asyncio as redis\b", "import redis"),
    (r"\b(\w+)_async as \1\b", r"\1"),
    (r"\bimport (\w+)_async as\b", r"import \1 as"),
    (r"(\.\w+)_async\b(?= import\b)", r"\1"),
    (r"\bopen_async_store\b", "open_store"),
    (r"\badapt_async\b", "adapt"),
    (r"\bPerLoop\b", "PerProcess"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bCoroutine\[Any, Any, (\w+)\]", r"\1"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait shielded\((self\..*\))\)$", r"\1"),
    (r"\bawait insisting\((self\.[\w.]+), (.*)\)$", r"\1(\2)"),
    (r"\bawait ", ""),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"^import asyncio$", "import time"),
    (r"\baclose\b", "close"),
    (r"\baread\b", "read"),
    (r"\bhandle_async_request\b", "handle_request"),
]


def twin_of(source: Path) -> Path:
    return source.with_name(f"{source.stem.removesuffix(SUFFIX)}.py")


def translate(source: Path) -> str:
    text = source.read_text()
    for pattern, replacement in SUBSTITUTIONS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    text = HEADER.format(source=source.relative_to(ROOT)) + text
    for command in (["check", "--select", "I,F401,UP", "--fix-only", "--quiet"], ["format", "--quiet"]):
        run = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(twin_of(source)), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = run.stdout
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 on any difference")
    check = parser.parse_args().check
    sources = [
        path for path in sorted(PACKAGE.rglob(f"*{SUFFIX}.py")) if not path.read_text().startswith(BY_HAND)
    ]
    wanted = {twin_of(source): translate(source) for source in sources}
    differing = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    orphans = [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in wanted and path.read_text().startswith(WRITTEN)
    ]
    for path in orphans:
        print(f"no source for {path.relative_to(ROOT)}")
    by_hand = [path for path in wanted if path.exists() and not path.read_text().startswith(WRITTEN)]
    for path in by_hand:
        print(
            f"written by hand: {path.relative_to(ROOT)}; begin its async counterpart with '{BY_HAND} <why>'"
        )
    if by_hand:
        return 1
    for path in differing:
        print(f"{'differs' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(wanted[path])
    if check and differing:
        print("run: python tools/twins.py")
    return 1 if orphans or (check and differing) else 0


if __name__ == "__main__":
    sys.exit(main())
