"""The rights that each API needs and how they are checked: `table.py` says it, `guard.py` puts it before the handlers.

Without an authorizer none of this is loaded.
"""
