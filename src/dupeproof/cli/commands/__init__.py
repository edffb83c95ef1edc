"""One file per command. A new one is a function here and a line in `dupeproof.cli.app`."""
