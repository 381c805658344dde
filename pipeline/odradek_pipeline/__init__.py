"""Jobs on Apache Spark that export topics, write rows back to topics, and read a broker's segment files."""
