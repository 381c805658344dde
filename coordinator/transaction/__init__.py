"""The transaction coordinator (Kafka's TransactionCoordinator): producer ids, transactions, markers."""
