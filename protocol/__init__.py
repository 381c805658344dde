"""Bytes to meaning and back: the table of APIs, requests and responses, record batches, errors."""
