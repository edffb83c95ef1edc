"""The `dupeproof` command, also as `python -m dupeproof`; says what to install where its libraries are missing."""

import sys


def main() -> None:
    try:
        from dupeproof.cli.app import run  # noqa: PLC0415 - the library itself must work without the extra
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        print(f'The command line needs {exc.name}; run: pip install "dupeproof[cli]"', file=sys.stderr)  # noqa: T201
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
