"""Runs the node: `python -I .../odradek/launcher.py serve`. It is never imported.

The node's packages have plain names (`broker`, `storage`), so they are on the path of this process alone, before
everything else. What the user's process can import comes last: there this process finds the dependencies that an
isolated Python does not (`pip install --user`, PYTHONPATH), and nothing there can stand in for a package of ours.
"""

from __future__ import annotations

import os
import runpy
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
INSTALLED = os.path.join(HERE, "_node")

# An installed odradek has the node's packages inside it; in a checkout they lie beside it.
sys.path.insert(0, INSTALLED if os.path.isdir(INSTALLED) else os.path.dirname(HERE))
for folder in os.environ.pop("ODRADEK_DEPENDENCIES", "").split(os.pathsep):
    if folder and folder not in sys.path:
        sys.path.append(folder)
# A node's log lines have colours, and escape the rest themselves; so do those of the forks of a template.
if sys.argv[1:2] not in (["serve"], ["template"]):
    runpy.run_path(os.path.join(HERE, "terminal.py"))["guard"]()
runpy.run_module("broker", run_name="__main__", alter_sys=True)
