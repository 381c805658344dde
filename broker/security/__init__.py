"""Authentication (TLS, SASL and their credentials) and authorization (ACLs)."""
