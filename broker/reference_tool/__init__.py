"""`odradek explain error|setting NAME`."""
