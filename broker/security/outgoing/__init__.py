"""How this node shows who it is to other nodes: TLS and SASL as their client."""
