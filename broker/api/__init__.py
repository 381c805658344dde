"""What a broker and a controller answer, by subject: for each API a function of its name, or a `Handler` that has one.

A function gets the request's context and the request, in the class of the newest version, and returns the response or
an awaitable of it. It raises KafkaError if the request fails as a whole. `table` says where each is; a module is
imported when the first request comes that it answers. So Produce, Fetch, Metadata and what else a client asks first
have modules of their own: no node loads share groups to append a record.
"""
