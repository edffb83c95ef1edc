"""What pictures of all commands share: loading the library that draws, where it is installed, and the tones of text."""

from importlib import import_module
from types import ModuleType

INK, FAINT = "#1f2430", "#69707d"


def load_drawing(module: str) -> ModuleType | None:
    """The module that draws, or None where its library is not installed; tables and pages do without."""
    try:
        return import_module(module)
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "matplotlib":
            raise
        return None
