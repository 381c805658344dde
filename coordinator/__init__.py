"""Replicated state machines on internal topics: `runtime` runs them; `group` and `transaction` are two of them."""
