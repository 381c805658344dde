"""Messages that kafka-python has not: it makes them from the JSON files of this package.

The files are in the form of Kafka's own descriptions of messages, which kafka-python reads. `Explain` and
`CreateBackup` are Odradek's own requests, which it lists for a client that calls itself by `OUR_SOFTWARE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import new_class
from typing import Any

from kafka.protocol.api_message import ApiMessage

OUR_SOFTWARE = "odradek"


def _messages(api: str) -> Iterator[Any]:
    """The request and the response of an API. kafka-python finds a response as long as somebody has it."""
    return (new_class(f"{api}{kind}", (ApiMessage,), {"load_json": __name__}) for kind in ("Request", "Response"))


AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse = _messages("AlterShareGroupOffsets")
CreateBackupRequest, CreateBackupResponse = _messages("CreateBackup")
CreateDelegationTokenRequest, CreateDelegationTokenResponse = _messages("CreateDelegationToken")
DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse = _messages("DeleteShareGroupOffsets")
DescribeDelegationTokenRequest, DescribeDelegationTokenResponse = _messages("DescribeDelegationToken")
DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse = _messages("DescribeShareGroupOffsets")
ExpireDelegationTokenRequest, ExpireDelegationTokenResponse = _messages("ExpireDelegationToken")
ExplainRequest, ExplainResponse = _messages("Explain")
RenewDelegationTokenRequest, RenewDelegationTokenResponse = _messages("RenewDelegationToken")
ShareGroupDescribeRequest, ShareGroupDescribeResponse = _messages("ShareGroupDescribe")
StreamsGroupDescribeRequest, StreamsGroupDescribeResponse = _messages("StreamsGroupDescribe")
UnregisterBrokerRequest, UnregisterBrokerResponse = _messages("UnregisterBroker")
