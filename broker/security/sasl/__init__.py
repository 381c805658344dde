"""SASL: the conversation before a client may send requests, and the mechanisms by which it shows who it is."""
