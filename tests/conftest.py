"""Which plugins the tests run with."""

pytest_plugins = [
    "plugins.places",
    "plugins.selection",
    "plugins.servers",
    "plugins.stores",
    "plugins.summary",
]
