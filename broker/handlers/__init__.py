"""One module per API, named as its row in `protocol.api_table`; `broker.dispatch` imports it at the first request.

`handle(ctx, request)` returns the response or an awaitable of it, and raises KafkaError. A module may also have

- `error_response(ctx, request, error)`, where `broker.error_responses` cannot make the answer from the schema alone,
- `decode` and `encode`, where the codec is hand-written (Produce and Fetch),
- `ONLY_READS = True`, where nothing is left half done if an unfinished answer is given up with its connection.
"""
