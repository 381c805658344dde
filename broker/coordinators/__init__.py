"""The coordinators as this node runs them, and what connects them to the node."""
