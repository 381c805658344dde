"""From bytes to a handler and back: listeners, connections, dispatch."""
