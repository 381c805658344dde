"""The coordinators as this node runs them, and what they take from it."""
