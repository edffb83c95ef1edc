"""All commands under one name, and how they end: 0 done, 1 not found or not proven, 2 wrong use or a store that is down."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from dupeproof.cli import settings
from dupeproof.cli.commands.console import console
from dupeproof.cli.commands.dead import dead
from dupeproof.cli.commands.doctor import doctor
from dupeproof.cli.commands.exporter import exporter
from dupeproof.cli.commands.forget import forget
from dupeproof.cli.commands.list import list_keys
from dupeproof.cli.commands.outbox import outbox
from dupeproof.cli.commands.plan import plan
from dupeproof.cli.commands.purge import purge
from dupeproof.cli.commands.relay import relay
from dupeproof.cli.commands.resolve import resolve
from dupeproof.cli.commands.schema import schema
from dupeproof.cli.commands.settle import settle
from dupeproof.cli.commands.show import show
from dupeproof.cli.commands.stats import stats
from dupeproof.cli.commands.version import version
from dupeproof.cli.commands.windows import windows
from dupeproof.cli.output import NotFound, complain, without_secrets
from dupeproof.cli.publishers import EXTRAS
from dupeproof.errors import ConfigError, DupeproofError

app = typer.Typer(
    name="dupeproof",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Exit codes: 0 done, 1 not found or not proven (doctor: warnings), 2 wrong use or a store that is down "
    "(doctor: errors), 130 interrupted.",
)


def _version_and_end(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version_and_end, is_eager=True, help="As the command `version`."),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help=f"Settings to use instead of ./{settings.FILE}; also {settings.FILE_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make the effect happen once.

    Every command takes its store as a URL, or from DUPEPROOF_URL, or from the file dupeproof.toml.
    """
    found = settings.read(config, context.command)
    settings.current.set(found)
    context.default_map = found.defaults


TRY_IT = "Try it"
A_KEY = "One key"
THE_STORE = "The store"
THE_OUTBOX = "The outbox"
THE_BROKER = "The broker"

app.command(
    rich_help_panel=TRY_IT,
    epilog="Example: **dupeproof plan --rate 50000/s --window 24h --result-size 500**",
)(plan)
app.command(rich_help_panel=TRY_IT, epilog="Example: **dupeproof version**")(version)
app.command(
    rich_help_panel=A_KEY,
    epilog="Example: **dupeproof show sqlite:///dedup.db charge:o-1 --namespace billing**",
)(show)
app.command(
    rich_help_panel=A_KEY,
    epilog="Example: **dupeproof forget sqlite:///dedup.db charge:o-1 --namespace billing**",
)(forget)
app.command(
    rich_help_panel=A_KEY,
    epilog="Example: **dupeproof resolve sqlite:///dedup.db charge:o-1 --namespace billing "
    """--result '{"receipt": 17}'**""",
)(resolve)
app.command(
    "list",
    rich_help_panel=A_KEY,
    epilog="Example: **dupeproof list postgresql://app@localhost/shop --state held**",
)(list_keys)
app.command(
    rich_help_panel=A_KEY,
    epilog="Example: **dupeproof settle postgresql://app@localhost/shop shop.payments:lookup --every 5m**",
)(settle)
app.command(
    rich_help_panel=THE_STORE,
    epilog="Example: **dupeproof purge postgresql://app@localhost/shop --every 15m**",
)(purge)
app.command(
    rich_help_panel=THE_STORE,
    epilog="Example: **dupeproof schema postgresql://owner@localhost/shop --apply**",
)(schema)
app.command(
    rich_help_panel=THE_STORE,
    epilog="Example: **dupeproof doctor postgresql://app@localhost/shop --window 24h --redelivery 7d**",
)(doctor)
app.command(
    rich_help_panel=THE_STORE,
    epilog="Example: **DUPEPROOF_CONSOLE_TOKEN=… dupeproof console postgresql://app@localhost/shop**",
)(console)
app.command(
    rich_help_panel=THE_STORE,
    epilog="Example: **dupeproof exporter postgresql://app@localhost/shop redis://localhost:6379/0 --port 9100**",
)(exporter)
app.command(
    rich_help_panel=THE_STORE,
    epilog="Example: **dupeproof stats redis://localhost:6379/0 --json**",
)(stats)
app.command(
    rich_help_panel=THE_OUTBOX,
    epilog="Example: **dupeproof relay --source postgresql://app@localhost/shop --to python:shop.publish**",
)(relay)
app.add_typer(outbox, name="outbox", rich_help_panel=THE_OUTBOX)
app.add_typer(dead, name="dead", rich_help_panel=THE_BROKER)
app.command(
    rich_help_panel=THE_STORE,
    epilog="Example: **dupeproof windows set postgresql://app@localhost/shop billing 4h**",
)(windows)


@cache
def add_commands_of_others() -> dict[str, str]:
    """Add the commands that other installed distributions have for us, as dupeproof-lab does; where each comes from."""
    found = entry_points(group="dupeproof.commands")
    added = {}
    for point in found:
        try:
            point.load()(app)
        except Exception as exc:  # noqa: BLE001 - somebody else's fault must not take our own commands with it
            complain(f"the command {point.name} cannot be loaded from {point.value}: {exc}")
        else:
            added[point.name] = point.value
    return added


def _is_own(arguments: Sequence[str]) -> bool:
    """Whether the command is surely one of ours, so that others, which take longer to load, need not be."""
    own = {getattr(command.callback, "__name__", "") for command in app.registered_commands} | {
        "outbox",
        "dead",
    }
    return bool(arguments) and arguments[0] in own


# typer brings a click of its own or uses the installed one, by version; this is the base of its errors in both.
_CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; the exit code. Errors are one line, without a traceback and without a password."""
    settings.json_wanted.set("--json" in arguments)
    try:
        if not _is_own(arguments):
            others = add_commands_of_others()
            if arguments and arguments[0] in settings.LAB and arguments[0] not in others:
                raise ConfigError(f"{arguments[0]} is a command of the lab; run: pip install dupeproof-lab")
        code = app(args=list(arguments), prog_name="dupeproof", standalone_mode=False)
    except NotFound as exc:
        text, code = str(exc), 1
    except DupeproofError as exc:
        text, code = str(exc), 2
    except typer.Abort:
        return 130
    except _CLICK_ERROR as exc:
        # Not what click would print: that quotes arguments whole, and a URL may hold a password.
        text, code = str(getattr(exc, "format_message", exc.__str__)()), 2
    except ModuleNotFoundError as exc:
        extra = EXTRAS.get((exc.name or "").partition(".")[0])
        if extra is None:
            raise
        text, code = (
            f'this needs {exc.name}, which is not installed; run: pip install "dupeproof[{extra}]"',
            2,
        )
    else:
        return code if isinstance(code, int) else 0
    complain(without_secrets(text) or "See dupeproof --help", as_json=settings.json_wanted.get())
    return code
