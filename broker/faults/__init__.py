"""Faults that a test sets: what requests they match (`spec`, `facts`), and how they are injected (`injection`)."""
