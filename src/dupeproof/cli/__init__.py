"""The command line: `app` puts it together, `commands` has one file for each command, `demo` the demonstration."""
