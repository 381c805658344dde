"""The console: pages about the node for a browser, at `/` of the HTTP port.

A page is a function that looks at a bounded piece of the node, on the loop, and gives plain values; a thread makes
HTML of them with a template. Nothing of it is loaded before somebody asks for a page, but `history.py`, which notes
the rates and lags that the charts show.
"""
