"""Checking logs while no broker runs, and repairing damaged ones."""
