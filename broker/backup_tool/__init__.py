"""`odradek backup verify PATH`."""
