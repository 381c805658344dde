"""The kinds of schemas: Avro, JSON Schema and Protobuf, each with what may follow what (`parsed.Parsed`).

What libraries have is theirs: Avro's resolution (`avro`), the metaschemas of JSON Schema (`jsonschema`), the grammar of
Protobuf (`protoc`). They are loaded by the first schema of their kind, in a thread, and so is all work with schemas.
"""
