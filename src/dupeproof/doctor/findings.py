"""A finding: what is so, why it matters, and what to do about it."""

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    ERROR = "error"
    """The guarantee does not hold, or will not."""
    WARNING = "warning"
    """It holds for now, or less than one would think."""
    NOTE = "note"
    """Worth knowing; also what could not be looked at."""


EXIT_CODES = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}


class Finding(Struct, frozen=True, kw_only=True):
    code: str
    """Stable, for those who look for it by program."""
    severity: Severity
    what: str
    why: str
    fix: str


class Report(Struct, frozen=True, kw_only=True):
    store: str
    """The URL as it may be printed."""
    facts: dict[str, str | int | float | bool | None]
    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        return max((EXIT_CODES[finding.severity] for finding in self.findings), default=0)


def error(code: str, what: str, why: str, fix: str) -> Finding:
    return Finding(code=code, severity=Severity.ERROR, what=what, why=why, fix=fix)


def warning(code: str, what: str, why: str, fix: str) -> Finding:
    return Finding(code=code, severity=Severity.WARNING, what=what, why=why, fix=fix)


def note(code: str, what: str, why: str, fix: str) -> Finding:
    return Finding(code=code, severity=Severity.NOTE, what=what, why=why, fix=fix)
