"""What a request and a start may cost, in figures that no noise moves: budgets.toml is the table.

`meters.py` counts, `scenes.py` has a conversation for each row, and the tests hold both to the table.
`python -m tests.unit.budgets` prints the table as it is measured now.
"""
