"""Jobs on Apache Spark for what leaves the broker, comes back to it, or is more than one machine holds."""
