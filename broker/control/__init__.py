"""The control interface of the test kit: HTTP and JSON under `/control/`, off unless `odradek.control` is set."""
