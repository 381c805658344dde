"""The broker as a client sees it in production, drawn by a seed: `schedule` is what happens when, `play` does it."""
