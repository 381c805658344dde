"""Values that are made of the state of a node's parts, and of what other brokers tell, when somebody asks."""
