"""All knowledge of each API, once: a row of `table` says what no schema says, and the rest follows from kio's schema.

`row` is what a row has. `shape` finds in the classes of a request and its answer where topics, partitions, groups and
transactional ids are, and where an error has its place; `failure` makes of that the answer to a request that failed.
`messages` reads and writes. Dispatch, the guard, faults, the journal and the pages of the docs read all of it here.
A class of kio's costs milliseconds to import: what follows from the schema is worked out when an API is first met.
"""
