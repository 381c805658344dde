"""Folders that get no new partitions (`cordoned.log.dirs`, KIP-1066)."""

from __future__ import annotations

from collections import Counter

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource

from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig

BROKER, SET = 4, 0
FOLDERS = {"log.dirs": "/one,/two"}


async def cordon(client: Client, folders: str, broker: str = "1") -> str:
    wanted = AlterableConfig(name="cordoned.log.dirs", config_operation=SET, value=folders)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=(wanted,))
    done = await client.ask("incremental_alter_configs", 1, resources=(resource,), validate_only=False)
    await settle()
    return str(done.responses[0].error_code.name)


async def create(client: Client, name: str) -> str:
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=(), configs=())
    done = await client.ask("create_topics", 7, topics=(topic,))
    return str(done.topics[0].error_code.name)


async def cordoned(client: Client) -> dict[str, bool]:
    done = await client.ask("describe_log_dirs", 5, topics=None)
    return {one.log_dir: one.is_cordoned for one in done.results}


async def test_a_cordoned_folder_gets_no_partitions_and_all_of_them_no_topic() -> None:
    async with Rig(config=FOLDERS) as rig:
        client = rig.connect()
        assert await cordon(client, "/one") == "none"
        assert await cordoned(client) == {"/one": True, "/two": False}
        assert await create(client, "a") == "none"
        assert Counter(rig.node.replicas.logs.placement.folders.values()) == {"/two": 3}
        assert await cordon(client, "*") == "none"
        assert await create(client, "b") == "invalid_replication_factor"
        move = AlterReplicaLogDir(path="/one", topics=(AlterReplicaLogDirTopic(name="a", partitions=(0, 9)),))
        done = await client.ask("alter_replica_log_dirs", 2, dirs=(move,))
        codes = {one.error_code.name for one in done.results[0].partitions}
        assert codes == {"invalid_replica_assignment"}
        assert await cordon(client, "") == "none"
        assert await create(client, "b") == "none"


async def test_folders_are_cordoned_from_the_start_on() -> None:
    async with Rig(config={**FOLDERS, "cordoned.log.dirs": "*"}) as rig:
        assert await create(rig.connect(), "a") == "invalid_replication_factor"


async def test_what_cannot_be_cordoned() -> None:
    async with Rig(config=FOLDERS) as rig:
        client = rig.connect()
        for folders in ("/three", "*,/one", "/one,/one"):
            assert await cordon(client, folders) == "invalid_request"
        assert await cordon(client, "/one", broker="") == "invalid_request"
        assert await cordoned(client) == {"/one": False, "/two": False}
