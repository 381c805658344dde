"""What `odradek-pipeline replay` refuses before it starts Spark."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from odradek_pipeline.commands.replay import command

REGISTERED = ["--job", "a", "--topic", "t", "--value-format", "avro", "--registry", "http://x:1"]
NEEDED = ["--bootstrap", "localhost:1", "--source", "/in"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--job", "a"], "one of --topic and --topic-column is needed"),
        (["--job", "a", "--topic", "t", "--topic-column", "c"], "one of --topic and --topic-column is needed"),
        (["--job", "a", "--topic", "t", "--key-column", "k", "--key-expr", "k + 1"], "exclude each other"),
        (["--job", "a", "--topic", "t", "--topic-config", "a=b"], "--topic-config needs --topic and --partitions"),
        (["--job", "a", "--topic-column", "c", "--partitions", "1", "--topic-config", "a=b"], "needs --topic and"),
        (["--job", "a:b", "--topic", "t"], "letters, digits, '.', '_' and '-'"),
        (["--job", "a", "--topic", "t", "--format", "orc"], "'orc' is not one of"),
        (["--topic", "t"], "Missing option '--job'"),
        (["--job", "a", "--topic", "t", "--option", "VersionAsOf=3"], "--option VersionAsOf: this is set by the job"),
        (["--job", "a", "--topic", "t", "--option", "path=/x"], "--option path: this is set by --source"),
        (["--job", "a", "--topic", "t", "--client-config", "bootstrap.servers=x:1"], "is set by --bootstrap"),
        (
            ["--job", "a", "--topic", "t", "--producer-config", "acks=1"],
            "--producer-config acks: this is set by the job",
        ),
        (["--job", "a", "--topic", "t", "--client-config", "transactional.id=x"], "--client-config transactional.id: "),
        (["--job", "a", "--topic", "t", "--register"], "--register needs --value-format"),
        (["--job", "a", "--topic", "t", "--value-format", "avro"], "--value-format needs --registry URL"),
        (
            ["--job", "a", "--topic-column", "t", "--value-format", "avro", "--registry", "http://x:1"],
            "--value-format needs --topic, or --value-subject",
        ),
        (
            [*REGISTERED, "--value-schema", "f"],
            "--value-schema is the schema to --register",
        ),
        ([*REGISTERED, "--registry-config", "a=b"], "--registry-config: a is no setting of a schema registry"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, [*NEEDED, *arguments])
    assert result.exit_code == 2
    assert message in result.output
