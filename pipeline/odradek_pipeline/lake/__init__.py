"""Writes topics to lake tables, one each, with every committed record exactly once."""
