"""`odradek log dump`, `verify` and `repair`: the files of a log inspected, and repaired, without a broker."""
