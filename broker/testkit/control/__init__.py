"""The control interface: HTTP and JSON under `/control/`, off unless `odradek.control` is set."""
