"""One subcommand per file: the module's name is the command's, and click runs its `command`.

These modules are imported to print the help, so they import pyspark, and whatever imports it, only inside functions.
"""
