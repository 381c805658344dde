"""Known weaknesses of what the image has (requirements-image.txt), by pip-audit.

`python -m tools.audit`: status 0 for none, 1 for some.

A registry's mirror may have no advisories. Then nothing can be said, and the status is 2.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

REQUIREMENTS = "requirements-image.txt"
COMMAND = ("-m", "pip_audit", "-r", REQUIREMENTS, "--disable-pip", "--progress-spinner", "off", "-f", "json")


def verdict(packages: list[dict[str, Any]]) -> tuple[int, str]:
    """The exit status and what to print, of pip-audit's list of dependencies."""
    skipped = [each for each in packages if "skip_reason" in each]
    weak = [each for each in packages if each.get("vulns")]
    if weak:
        found = (f"{each['name']} {each['version']}: {weakness['id']}" for each in weak for weakness in each["vulns"])
        return 1, "\n".join(found)
    if len(skipped) == len(packages):
        return 2, f"no advisories can be reached: none of {len(packages)} packages was audited"
    return 0, f"no known weakness in {len(packages) - len(skipped)} packages; {len(skipped)} could not be audited"


def main() -> None:
    run = subprocess.run([sys.executable, *COMMAND], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except ValueError:
        sys.stderr.write(f"pip-audit failed, no package was audited: {run.stderr}")
        raise SystemExit(2) from None
    status, text = verdict(packages)
    sys.stdout.write(f"{text}\n")
    raise SystemExit(status)


if __name__ == "__main__":
    main()
