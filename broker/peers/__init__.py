"""Connections that this node opens to other nodes: to controllers, to leaders that it follows, to coordinators."""
