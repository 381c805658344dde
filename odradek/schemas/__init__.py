"""Keys and values that have a schema in a registry: found, decoded, encoded. Console, kit and command line use it.

    framed = framing.framed(record.value, record.headers)        # which schema, by prefix or header; None: none
    source = lookup.run(lookup.by_name(framed.schema), ask)      # its text and kind, with all that it refers to
    codec = codecs.codec_of(source)                              # parsed; keep it: a schema never changes
    value = codec.decode(framed)                                 # a Python value: dict, list, ...
    codecs.plain(value)                                          # as JSON has it: json.dumps(value, default=scalar)
    codec.encode({"id": 7})                                      # the payload; framing.with_prefix(7, payload)

`ask` gets a path of Confluent's REST interface and returns the JSON of the answer, None for 404: over HTTP, or in the
registry's own process. `lookup.run_async` is the same for asyncio.

`codec_of`, `decode` and `encode` take time, and schemas may come from strangers: call them in a thread. What is wrong
is a SchemaError (a ValueError), whose text is for people; MissingLibraryError is one, and says what to install.

What schemas and values may cost is bounded: see `avro` and `protoc`. Libraries are imported at first use, none by
`framing` and `lookup`: a broker or a test that sees no schema loads none.
"""
