"""The users of a running broker, asked as Kafka's tools ask (KIP-554)."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Sequence
from typing import Any

from kio.schema.alter_user_scram_credentials.v0 import AlterUserScramCredentialsRequest
from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialDeletion, ScramCredentialUpsertion
from kio.schema.describe_user_scram_credentials.v0 import DescribeUserScramCredentialsRequest
from kio.schema.errors import ErrorCode

from broker.config.broker_config import PROVIDERS, BrokerConfig, ConfigurationError
from broker.config.current import CurrentConfig
from broker.config.listeners import Listener
from broker.config.outgoing import INTER_BROKER_MECHANISM, outgoing_problems
from broker.config.properties import parse_properties
from broker.config.providers import read_providers, resolved
from broker.peers.call import PeerError, entity_call
from broker.peers.client import PeerClient, PeerNetwork, PeerSettings, ask_versions
from broker.security.outgoing.security import secured
from broker.user_tool.users import Users, UserToolError
from controller.scram import Alteration, Deletion, Upsertion
from protocol.schema import Entity
from storage.workers import ThreadWorkers
from timing.clock import SystemClock

TIMEOUT_MS = 30_000.0
_NAME = "TOOL"


class Connection:
    """How a broker is reached: `client_properties` are those of Kafka's `--command-config`. Raises UserToolError."""

    def __init__(self, bootstrap_server: str, client_properties: str) -> None:
        self.host, _, port = bootstrap_server.rpartition(":")
        if not self.host.isprintable() or not self.host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
            raise UserToolError(f"--bootstrap-server {bootstrap_server!r}: expected HOST:PORT")
        self.port = int(port)
        try:
            given = parse_properties(client_properties)
            if PROVIDERS in given:
                given = resolved(given, read_providers(given, os.environ))
            given[INTER_BROKER_MECHANISM] = given.pop("sasl.mechanism", "PLAIN")
            self.config = BrokerConfig.of(given)
        except (ValueError, ConfigurationError) as error:
            raise UserToolError(f"--command-config: {error}") from error
        self.listener = Listener(_NAME, given.get("security.protocol", "PLAINTEXT").upper(), "", 0)
        problems = [*outgoing_problems(self.config, self.listener, INTER_BROKER_MECHANISM)]
        if problems:
            raise UserToolError(f"--command-config: {problems[0].replace(INTER_BROKER_MECHANISM, 'sasl.mechanism')}")

    def ask(self, request: Entity) -> Any:
        """The broker's answer. Raises UserToolError."""
        try:
            return asyncio.run(self._ask(request))
        except PeerError as error:
            raise UserToolError(str(error)) from error

    async def _ask(self, request: Entity) -> Any:
        loop = asyncio.get_running_loop()
        workers = ThreadWorkers(loop)
        network = PeerNetwork(SystemClock(loop), random.SystemRandom())
        network = secured(network, CurrentConfig(self.config), self.listener, workers, INTER_BROKER_MECHANISM)
        client = PeerClient(self.host, self.port, PeerSettings("odradek-user"), network, ask_versions)
        try:
            return await client.send(entity_call(request), TIMEOUT_MS)
        finally:
            client.close()
            workers.close()


def alter(connection: Connection, alterations: Sequence[Alteration]) -> None:
    """Raises UserToolError for the first that is refused; the others are done."""
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(
            ScramCredentialDeletion(name=alteration.user, mechanism=alteration.mechanism)
            for alteration in alterations
            if isinstance(alteration, Deletion)
        ),
        upsertions=tuple(
            ScramCredentialUpsertion(
                name=alteration.user,
                mechanism=alteration.mechanism,
                iterations=alteration.iterations,
                salt=alteration.salt,
                salted_password=alteration.salted_password,
            )
            for alteration in alterations
            if isinstance(alteration, Upsertion)
        ),
    )
    for result in connection.ask(request).results:
        _require(result)


def users(connection: Connection) -> Users:
    """The iterations of each mechanism, by user. Raises UserToolError."""
    answer = connection.ask(DescribeUserScramCredentialsRequest(users=None))
    _require(answer)
    return {
        result.user: {info.mechanism: info.iterations for info in result.credential_infos} for result in answer.results
    }


def _require(result: Any) -> None:
    if result.error_code is not ErrorCode.none:
        raise UserToolError(result.error_message or f"the broker answers {result.error_code.name}")
