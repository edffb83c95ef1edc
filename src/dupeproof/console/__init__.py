"""A page to watch and mend by: `dupeproof console URL`, or mounted in an ASGI app of your own.

    listener = ConsoleListener()
    once = AsyncOnce("redis://…", events=[listener])
    app.mount("/dupeproof", ConsoleApp("redis://…", listener=listener, token=os.environ["CONSOLE_TOKEN"]))

Everyone who reaches it may look, so mount it behind your own sign-in. Only who has the token may change anything.
"""

from dupeproof.console.live_counts import ConsoleListener

__all__ = ["ConsoleApp", "ConsoleListener"]

try:
    from dupeproof.console.app import ConsoleApp
except ModuleNotFoundError as exc:
    if (exc.name or "").partition(".")[0] not in ("starlette", "jinja2"):
        raise
    raise ModuleNotFoundError(
        f'dupeproof.console needs {exc.name}, which is not installed; run: pip install "dupeproof[console]"',
        name=exc.name,
    ) from exc
