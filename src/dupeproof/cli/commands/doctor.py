"""`dupeproof doctor`: what would break the guarantee."""

from typing import Annotated

import msgspec
import typer
from rich.markup import escape
from rich.padding import Padding

from dupeproof.cli.output import out, say, say_json
from dupeproof.cli.target import AsJson, Url, chosen
from dupeproof.doctor import Report, Severity, examine

_COLORS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


def doctor(
    url: Url = None,
    *,
    window: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The window your code uses, such as 24h.")
    ] = None,
    redelivery: Annotated[
        str | None,
        typer.Option(
            "--redelivery",
            "--retention",
            metavar="DURATION",
            help="How long your broker may deliver a message again, such as 7d.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a store and its settings: what would break the guarantee, why, and the fix.

    Nothing is changed. Exit code 0 when nothing is wrong, 1 for warnings, 2 for errors.
    """
    report = examine(chosen(url), window=window, redelivery=redelivery)
    if as_json:
        say_json(msgspec.to_builtins(report) | {"exit_code": report.exit_code})
    else:
        _show(report)
    raise typer.Exit(report.exit_code)


def _show(report: Report) -> None:
    version = report.facts.get("version")
    say(report.store + ("" if version is None else f", version {version}"))
    for finding in report.findings:
        out.print()
        what = escape(finding.what)  # it may hold the name of a group
        out.print(f"[{_COLORS[finding.severity]}]{finding.severity}[/]  {what}", highlight=False)
        for name, text in (("why", finding.why), ("fix", finding.fix)):
            out.print(Padding(f"[dim]{name}[/]  {escape(text)}", (0, 0, 0, 2)), highlight=False)
    if not report.findings:
        say("Nothing found that would break the guarantee.")
