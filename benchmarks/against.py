"""The broker of another commit beside this tree's and Apache Kafka, in one run: `python -m benchmarks.against COMMIT`.

The commit's files are put into build/against/. Where it needs the packages that this tree needs (the same
requirements.txt) its broker runs with this Python, otherwise with a venv of its own, made from what it had pinned.

What follows the commit is another benchmark than `benchmarks.run`, and its options; any will do that measures what
`benchmarks.contenders` has:

    python -m benchmarks.against 37d6add -- run --quick
    python -m benchmarks.against HEAD~20 -- transactions --rounds 5

A commit's CPU time per request, in the same run, is the figure to compare: rates depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import compileall
import filecmp
import runpy
import subprocess
import sys
from pathlib import Path

from benchmarks.contenders import ROOT, Tree, other_trees

REQUIREMENTS = "requirements.txt"
BUILT = ROOT / "build" / "against"


def tree_of(commit: str) -> Tree:
    """Put the files of a commit into a folder, unless they are there. Raises CalledProcessError if there is none."""
    name = _git("rev-parse", "--short", f"{commit}^{{commit}}")
    root = BUILT / name
    if not root.exists():
        unfinished = BUILT / f"{name}.unfinished"
        unfinished.mkdir(parents=True, exist_ok=True)
        with subprocess.Popen(["git", "archive", name], stdout=subprocess.PIPE, cwd=ROOT) as archive:
            assert archive.stdout is not None
            subprocess.run(["tar", "-x", "-C", str(unfinished)], stdin=archive.stdout, check=True)
        unfinished.rename(root)
        compileall.compile_dir(root, quiet=2)  # as this tree is: no first start pays for it
    return Tree(name, root, _python_for(root))


def _python_for(root: Path) -> Path:
    if filecmp.cmp(root / REQUIREMENTS, ROOT / REQUIREMENTS, shallow=False):
        return Path(sys.executable)
    venv = root / ".venv"
    python = venv / "bin" / "python"
    if not (venv / "complete").exists():
        sys.stderr.write(f"{root.name} needs other packages than this tree: they are installed in {venv}\n")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        pip = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", "install", "-q", "--require-hashes"]
        subprocess.run([*pip, "-r", str(root / REQUIREMENTS)], check=True)
        (venv / "complete").touch()
    return python


def _git(*arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return ran.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("commit", help="of the other broker")
    parser.add_argument(
        "benchmark", nargs="*", default=["run"], help="a module of benchmarks/ and its options, after --"
    )
    options = parser.parse_args()
    other_trees.append(tree_of(options.commit))
    module, *arguments = options.benchmark
    sys.argv = [f"benchmarks.{module}", *arguments]
    runpy.run_module(f"benchmarks.{module}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
