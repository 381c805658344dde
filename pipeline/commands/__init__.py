"""One subcommand a file: the module's name is the command's, its `command` is what click runs.

These modules are imported to print the help, so they import pyspark, and what imports it, only inside their functions.
"""
