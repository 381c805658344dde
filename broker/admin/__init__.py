"""`odradek log dump`, `verify` and `repair`: inspect and repair the files of a log without a broker."""
