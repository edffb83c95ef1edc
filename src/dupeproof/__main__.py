"""The `dupeproof` command, also as `python -m dupeproof`; says what to install where its libraries are missing."""

import sys
from io import TextIOWrapper


def main() -> None:
    try:
        from dupeproof.cli.app import run  # noqa: PLC0415 - the library itself must work without the extra
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        print(f'The command line needs {exc.name}; run: pip install "dupeproof[cli]"', file=sys.stderr)  # noqa: T201
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that knows ASCII only gets what it can show.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
