"""One module per API, named as its row in `protocol.api_table`; `broker.network.dispatch.Route` imports it when needed.

`handle(ctx, request)` returns the response or an awaitable of it, and raises KafkaError. A module may also have

- `error_response(ctx, request, error)`, where `broker.network.error_responses` cannot make the answer from the schema,
- `unsupported_version()`, the answer to a version that is not served (ApiVersions; others end the connection),
- `decode(version, buffer, position)` and `encode(response, version, correlation_id)`, where the codec is hand-written,
- `prepare(ctx, request)`, which makes of a request what `handle` is given, looking at it and its client alone,
- `ONLY_READS = True`, where nothing is left half done if an unfinished answer is given up with its connection,
- `REPEATS = True`, where requests are often the same: the very object of the last time is handed over again, and must
  not be changed,
- `SHARES_RESPONSES = True`, where most get the same response, which is then written once.
"""
