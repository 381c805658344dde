"""What an import of the kit and of a command loads: nothing that is not used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import odradek


def loaded_by(statement: str) -> set[str]:
    """The modules that a new interpreter has after the statement."""
    command = [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_every_name_of_the_kit_can_be_imported() -> None:
    for name in odradek.__all__:
        assert getattr(odradek, name) is not None, name
    assert {"Broker", "Cluster", "__version__"} <= set(dir(odradek))
    with pytest.raises(AttributeError, match="has no attribute 'Brokers'"):
        _ = odradek.Brokers


@pytest.mark.parametrize("command", ["topics", "streaming", "elect"])
def test_commands_that_work_through_librdkafka_do_not_import_kafka_python(command: str) -> None:
    modules = loaded_by(f"import odradek.cli.{command}")
    assert "confluent_kafka" in modules
    assert "kafka" not in modules
    assert "odradek.process" not in modules


TOPICS = (
    "from odradek.cli.general import client_libraries\nwith client_libraries('topics'): import odradek.cli.topics\n"
)


def test_commands_import_asyncio_and_look_for_the_version_only_if_it_is_used() -> None:
    modules = loaded_by(f"{TOPICS}import odradek, odradek.cli.main\nassert '__version__' not in vars(odradek)")
    assert "confluent_kafka" in modules
    assert not {name for name in modules if name.startswith("asyncio.")}


@pytest.mark.parametrize(
    "use",
    [
        "import asyncio; asyncio.run(asyncio.sleep(0))",
        "from asyncio import run, sleep; run(sleep(0))",
        "import asyncio.events; asyncio.events.new_event_loop().close()",
        "import asyncio; assert not hasattr(asyncio, 'nonsense') and hasattr(asyncio, 'run')",
    ],
)
def test_a_deferred_module_is_the_module_when_it_is_used(use: str) -> None:
    assert "asyncio.events" in loaded_by(TOPICS + use)


def test_commands_work_with_click_8_1_whose_types_take_no_parameters() -> None:
    statement = """
import click, importlib, pkgutil
def refuse(cls, item): raise TypeError(f"{cls} is not subscriptable")
click.ParamType.__class_getitem__ = classmethod(refuse)
import odradek.cli
for module in pkgutil.iter_modules(odradek.cli.__path__): importlib.import_module(f"odradek.cli.{module.name}")
"""
    assert {"odradek.cli.positions", "odradek.cli.durations", "odradek.cli.access"} <= loaded_by(statement)


def test_the_registrys_commands_need_no_client_library_and_no_other_command_loads_them() -> None:
    modules = loaded_by("import odradek.cli.registry")
    assert "odradek.schemas.client" in modules
    assert not modules & {"confluent_kafka", "kafka", "fastavro", "avro", "jsonschema", "google.protobuf"}
    others = loaded_by("import odradek.cli.main, odradek.cli.topics, odradek.cli.streaming, odradek.cli.contexts")
    assert not {name for name in others if "registry" in name or name.startswith("odradek.schemas")}


def test_importing_the_package_imports_none_of_its_parts() -> None:
    assert not {name for name in loaded_by("import odradek") if name.startswith("odradek.")}
