"""What each API asks of the authorizer, and how: `table.py` says it, and `guard.py` puts it before the handlers.

Without an authorizer none of this is loaded.
"""
