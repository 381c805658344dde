"""What only some kinds of groups have: configurations of their own, and the tasks of a streams group.

Configurations are of share, streams and consumer groups (KIP-848, KIP-932, KIP-1071), and are set whether the group
exists or not. A reset between tests removes those that the test has set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from broker.api.configs import changed_respond, changed_wanted
from broker.config.resource_configs import GROUP_CONFIGS
from broker.nearest import did_you_mean
from broker.node import Node
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values
from broker.testkit.control.groups import GROUP, existing_here
from broker.testkit.control.topics import LOOK_MS, texts_of
from broker.testkit.inspection.share_and_streams import TaskView, read_streams_group
from controller.configs import AlterOp, decide
from metadata.configs import ResourceType

ENDPOINTS = Endpoints()


@ENDPOINTS("GET /groups/{group}/configs", "The configurations that are set for a group.", GROUP)
def _configs(node: Node, values: Values) -> dict[str, Any]:
    """What is set for the group itself."""
    group_id = values["group"]
    return {"group": group_id, "configs": dict(node.cluster.cache.image.configs.of(ResourceType.GROUP, group_id))}


@ENDPOINTS(
    "POST /groups/{group}/configs",
    "Set configurations of a group, which need not exist.",
    GROUP,
    Parameter(
        "configs",
        Kind.OBJECT,
        "as share.auto.offset.reset; null removes one, and the broker's default counts",
        required=True,
    ),
)
async def _set_configs(node: Node, values: Values) -> dict[str, Any]:
    given = values["configs"]
    for name in given:
        if name not in GROUP_CONFIGS:
            raise ControlError(
                f"configs: {name!r} is no configuration of a group{did_you_mean(name, GROUP_CONFIGS)}",
                parameter="configs",
            )
    texts = texts_of({name: value for name, value in given.items() if value is not None})
    await _change(node, {values["group"]: {name: texts.get(name) for name in given}})
    return _configs(node, values)


async def _change(node: Node, by_group: Mapping[str, Mapping[str, str | None]]) -> None:
    """Set these configurations of groups, or remove those that are None, and return once this node knows it.

    Raises ControlError for one that the controller refuses; then others may be set.
    """
    request = IncrementalAlterConfigsRequest(
        resources=tuple(_resource(group_id, configs) for group_id, configs in by_group.items()), validate_only=False
    )
    changes, controller = changed_wanted(request), node.controller
    response = await controller.submit(
        lambda image: decide(image, changes, controller.around, validate_only=False).map(
            lambda errors: changed_respond(request.resources, errors)
        ),
        request=request,
    )
    for each in response.responses:
        if each.error_code is not ErrorCode.none:
            text = f"{each.error_code.name.upper()}: {each.error_message or 'the configurations cannot be set'}"
            raise ControlError(text, parameter="configs")
    while controller.is_elsewhere and not _are_set(node, by_group):  # they are on their way to this node
        await node.base.seams.clock.machine.sleep(LOOK_MS)


def _resource(group_id: str, configs: Mapping[str, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=ResourceType.GROUP,
        resource_name=group_id,
        configs=tuple(
            AlterableConfig(name=name, config_operation=AlterOp.DELETE if value is None else AlterOp.SET, value=value)
            for name, value in configs.items()
        ),
    )


def _are_set(node: Node, by_group: Mapping[str, Mapping[str, str | None]]) -> bool:
    known = node.cluster.cache.image.configs
    return all(
        known.of(ResourceType.GROUP, group_id).get(name) == value
        for group_id, configs in by_group.items()
        for name, value in configs.items()
    )


def groups_with_configs(node: Node) -> list[str]:
    """The groups for which configurations are set, in order."""
    return sorted(node.cluster.cache.image.configs.names(ResourceType.GROUP))


async def remove_configs(node: Node, kept: Collection[str]) -> None:
    """Remove all configurations of groups but of these."""
    known = node.cluster.cache.image.configs
    removed: dict[str, Mapping[str, str | None]] = {
        group_id: dict.fromkeys(known.of(ResourceType.GROUP, group_id))
        for group_id in groups_with_configs(node)
        if group_id not in kept
    }
    if removed:
        await _change(node, removed)


@ENDPOINTS(
    "GET /groups/{group}/tasks",
    "The tasks of a streams group, who has them, and how far their state is; `problem` says why there are none.",
    GROUP,
)
async def _tasks(node: Node, values: Values) -> dict[str, Any]:
    """The tasks of a streams group. Raises ControlError for a group of another kind."""
    group_id = values["group"]
    group = await existing_here(node, group_id)
    view = await read_streams_group(node.coordinators.groups, group_id)
    if view is None:
        raise ControlError(
            f"group = {group_id!r}: a {group.protocol} group has no tasks; only streams groups have",
            parameter="group",
            status=409,
        )
    return {
        "group": group_id,
        "topology_epoch": view.topology_epoch,
        "problem": None if view.problem is None else f"{view.problem.status.name}: {view.problem.detail}",
        "shutdown_by": view.shutdown_by,
        "tasks": [_task(one) for one in _in_order(view.tasks)],
    }


def _in_order(tasks: Iterable[TaskView]) -> list[TaskView]:
    return sorted(tasks, key=lambda one: (one.name, one.role, one.member_id))


def _task(one: TaskView) -> dict[str, Any]:
    return {
        "task": one.name,
        "role": one.role,
        "member": one.member_id,
        "offset": one.offset,
        "end": one.end,
    }
