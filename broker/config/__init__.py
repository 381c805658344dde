"""The one table of configurations (`defs`), and what uses it: parsing, describing, altering, documenting."""
