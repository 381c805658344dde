"""TLS of the broker's listeners: stores of keys and certificates, contexts, and the names of clients' certificates."""
