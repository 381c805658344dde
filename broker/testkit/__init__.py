"""The test kit's side of the broker, which is imported with the control interface, the console or an explain request.

`journal` keeps what was asked and answered; `inspection` makes values of the state of the node's parts when somebody
asks, and asks other brokers for theirs; `explain` has rules over them; `control` is HTTP and JSON under `/control/`.
"""
