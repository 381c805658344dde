"""What the test kit sees of a node: values that are made of the state of its parts when somebody asks."""
