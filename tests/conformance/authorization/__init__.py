"""Who may do what: every API as each kind of user, answered by a real Kafka and kept."""
