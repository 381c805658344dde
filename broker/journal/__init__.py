"""The journal of the test kit: the last requests with their answers, connections and warnings of a node.

It exists only where the control interface is open. It keeps the bytes as they came and went, and decodes them when
somebody asks.
"""
