"""A schema registry with the REST interface of Confluent's, whose state is the topic `_schemas` in Confluent's records.

A request comes through `server` (sockets, TLS, users), or from another node (`forwarding`), to `registry`: the node
that leads `_schemas-0` answers it. `rest` finds what it asks for; `reads`, `registration`, `deletion` and `settings`
answer from the `state`, which is what the records of the topic (`records`) amount to; `topic` reads and writes it. What
a schema is, and which one may follow which, is in `formats` and `levels`.

It is imported only where `schema.registry.listeners` is set, or when the test kit asks for it.
"""
