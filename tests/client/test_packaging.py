"""The wheels beside an application that has packages of the same plain names: what is installed, and what runs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipapp
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from odradek import Broker, BrokerStartError

ROOT = Path(__file__).parents[2]
DEPENDENCIES = sysconfig.get_paths()["purelib"]
"""The folder with what the broker needs; as a plain folder on a path, the editable install in it does not count."""

PLAIN_NAMES = ("broker", "controller", "coordinator", "metadata", "storage", "protocol", "timing", "pipeline")
START_A_BROKER = "import odradek\nwith odradek.Broker() as broker:\n    print(broker.bootstrap_servers)\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of odradek and of the pipeline."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, ROOT / "pipeline"):
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=project)
    return folder


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """The Python of a fresh environment with an application that has packages named as the node's."""
    _run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")])
    python = tmp_path / "env" / "bin" / "python"
    site = Path(_run([str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]).strip())
    (site / "dependencies.pth").write_text(DEPENDENCIES + "\n")
    for name in PLAIN_NAMES:
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"WHOSE = 'the application: {name}'\n")
        (site / name / "__main__.py").write_text("print('the application ran')\n")
    return python


def test_wheels_install_one_name_each(wheels: Path) -> None:
    names = {}
    for wheel in wheels.glob("*.whl"):
        entries = zipfile.ZipFile(wheel).namelist()
        names[wheel.name.split("-")[0]] = {entry.split("/")[0] for entry in entries if ".dist-info/" not in entry}
    assert names == {"odradek": {"odradek"}, "odradek_pipeline": {"odradek_pipeline"}}


@pytest.mark.parametrize("editable", [False, True], ids=["plain", "editable"])
def test_packages_of_an_application_are_its_own_and_the_broker_runs(
    application: Path, wheels: Path, tmp_path: Path, editable: bool
) -> None:
    found = ["--editable", str(ROOT), "--editable", str(ROOT / "pipeline")] if editable else _wheels(wheels)
    _install(application, ["--no-build-isolation", *found])
    imported = "; ".join(f"import {name}; print({name}.WHOSE)" for name in PLAIN_NAMES)
    told = _run([str(application), "-c", f"import odradek, odradek_pipeline.cli; {imported}"], cwd=tmp_path)
    assert told.splitlines() == [f"the application: {name}" for name in PLAIN_NAMES]
    assert _run([str(application), "-c", START_A_BROKER], cwd=tmp_path).startswith("127.0.0.1:")
    command = [str(application.with_name("odradek")), "serve", "--help"]
    assert "Run a broker" in _run(command, cwd=tmp_path)
    assert "topics" in _run([str(application.with_name("odradek-pipeline")), "--help"], cwd=tmp_path)


def test_a_broker_starts_from_pythonpath_and_with_a_changed_sys_path(wheels: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    _install(Path(sys.executable), ["--target", str(target), *_wheels(wheels)[:1]])
    shadowing = tmp_path / "mine" / "storage"
    shadowing.mkdir(parents=True)
    (shadowing / "__init__.py").write_text("raise ImportError('the node imported the user\\'s storage')\n")
    python = _base_python()
    path = os.pathsep.join([str(tmp_path / "mine"), str(target), DEPENDENCIES])
    assert _run([python, "-c", START_A_BROKER], {"PYTHONPATH": path}).startswith("127.0.0.1:")
    changed = f"import sys\nsys.path[:0] = {path.split(os.pathsep)!r}\n" + START_A_BROKER
    assert _run([python, "-I", "-c", changed]).startswith("127.0.0.1:")


def test_a_broker_starts_from_a_user_install(wheels: Path, tmp_path: Path) -> None:
    python, base = _base_python(), {"PYTHONUSERBASE": str(tmp_path)}
    site = Path(_run([python, "-c", "import site; print(site.getusersitepackages())"], base).strip())
    _install(Path(sys.executable), ["--target", str(site), *_wheels(wheels)[:1]])
    (site / "dependencies.pth").write_text(DEPENDENCIES + "\n")
    assert _run([python, "-c", START_A_BROKER], base).startswith("127.0.0.1:")


def test_a_broker_of_another_environment_needs_nothing_of_this_one(
    application: Path, wheels: Path, tmp_path: Path
) -> None:
    _install(application, _wheels(wheels)[:1])
    alone = tmp_path / "alone"
    _install(Path(sys.executable), ["--target", str(alone), *_wheels(wheels)[:1]])
    program = START_A_BROKER.replace("Broker()", f"Broker(python={str(application)!r})")
    assert _run([_base_python(), "-c", program], {"PYTHONPATH": str(alone)}).startswith("127.0.0.1:")


def test_a_python_without_odradek_is_named_with_what_to_do(tmp_path: Path) -> None:
    _run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")])
    python = tmp_path / "env" / "bin" / "python"
    program = START_A_BROKER.replace("Broker()", f"Broker(python={str(python)!r})")
    told = _fail([sys.executable, "-c", program])
    assert f"{python} has no odradek: {python} -m pip install /path/to/odradek" in told


def test_a_python_that_is_none_is_named() -> None:
    broker = Broker(python="/nowhere/python")
    with pytest.raises(BrokerStartError, match=r"/nowhere/python is no program"):
        broker.start()
    broker.close()


def test_odradek_inside_a_zipapp_says_that_it_cannot_run_there(wheels: Path, tmp_path: Path) -> None:
    _install(Path(sys.executable), ["--target", str(tmp_path / "app"), *_wheels(wheels)[:1]])
    (tmp_path / "app" / "__main__.py").write_text(START_A_BROKER)
    zipapp.create_archive(tmp_path / "app", tmp_path / "app.pyz")
    told = _fail([_base_python(), str(tmp_path / "app.pyz")])
    assert "a broker's process cannot run from inside an archive. Install odradek" in told


def _wheels(folder: Path) -> list[str]:
    """The wheel of odradek, then that of the pipeline."""
    return [str(next(folder.glob(f"{name}-*.whl"))) for name in ("odradek", "odradek_pipeline")]


def _base_python() -> str:
    """The interpreter without this environment's packages."""
    return os.path.realpath(sys.executable)


def _install(python: Path, arguments: Sequence[str]) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    _run([*pip, "--disable-pip-version-check", *arguments])


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    ran = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _fail(command: Sequence[str]) -> str:
    """What a command that fails says."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode != 0, ran.stdout
    return ran.stderr
