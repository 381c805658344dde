"""Topics to lake tables, one each, every committed record once."""
