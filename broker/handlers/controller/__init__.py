"""Handlers of a controller's listener: what is served there alone, and what is answered differently there."""
