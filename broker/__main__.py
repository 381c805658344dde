"""`python -m broker COMMAND`: the node's program. `odradek` runs it in a process of its own (`odradek/launcher.py`)."""

from __future__ import annotations

import sys

from protocol import compiled

compiled.begin()  # before anything makes a dataclass

# kio imports Hypothesis and structlog imports rich wherever they are installed: 0.3 s and 16 MB for nothing.
for unwanted in ("hypothesis", "rich"):
    sys.modules.setdefault(unwanted, None)  # type: ignore[arg-type]

TEMPLATE = "template"
"""The word in place of a command with which the test kit runs its template (`odradek/warm.py`)."""

if __name__ == "__main__":
    if sys.argv[1:2] == [TEMPLATE]:
        from broker.template import Template

        sys.argv[1:] = Template(int(sys.argv[2]), together=sys.argv[3:] == ["together"]).arguments_of_node()
    from broker.program import main

    if sys.argv[1:2] in (["serve"], [TEMPLATE]):
        main(prog_name="odradek")
    else:
        from odradek.terminal import output_that_may_fail

        with output_that_may_fail():
            main(prog_name="odradek")
