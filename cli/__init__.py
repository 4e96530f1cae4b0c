"""The command `replica`: one file per command, each of which parses, calls the library once and writes."""
