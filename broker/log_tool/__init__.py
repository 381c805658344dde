"""`odradek log dump`, `verify` and `repair`: the files of a log looked at, and mended, without a broker."""
