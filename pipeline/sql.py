"""Names in Spark's SQL."""


def quoted(identifier: str) -> str:
    """An identifier in backticks; those within it are doubled."""
    return "`" + identifier.replace("`", "`" * 2) + "`"
