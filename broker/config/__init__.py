"""The one table of configurations (`defs`), and what is made of it: parsing, describing, altering, documenting."""
