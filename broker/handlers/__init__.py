"""One module per API, named as its row in `protocol.api_table`; `broker.network.dispatch.Route` imports it when needed.

`handle(ctx, request)` returns the response or an awaitable of it, and raises KafkaError. A module may also have

- `error_response(ctx, request, error)`, if `broker.network.error_responses` cannot derive the answer from the schema,
- `unsupported_version()`, the answer to a version that is not served (ApiVersions; others end the connection),
- `decode(version, buffer, position)` and `encode(response, version, correlation_id)`, if the codec is hand-written,
- `prepare(ctx, request)`, which turns a request into what `handle` gets, using only the request and its client,
- `ONLY_READS = True`, if an unfinished answer may be dropped with its connection without harm,
- `REPEATS = True`, if requests are often identical: the same object is then passed again, and must not be changed,
- `SHARES_RESPONSES = True`, if most requests get the same response, which is then written once.
"""
