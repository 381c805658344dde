"""`python -m pipeline` and the console script `odradek-pipeline`."""

from __future__ import annotations

from odradek_pipeline.cli import main

if __name__ == "__main__":
    main()
