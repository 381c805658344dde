"""How a follower gets what its leader has: fetchers, one or more for each leader, and what they do to logs."""
