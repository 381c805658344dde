"""`ssl.principal.mapping.rules`, with the examples of Kafka's documentation."""

from __future__ import annotations

import pytest

from broker.security.sources import SecurityError
from broker.security.tls.principal_mapping import parse_rules, principal_name

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L , "
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        (RULES, DUKE, "Duke"),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=kafka1.Example,OU=x", "kafka1.example"),
        (RULES, "O=Org", "O=Org"),
        ("DEFAULT", DUKE, DUKE),
        ("", DUKE, DUKE),
        ("RULE:^CN=(.*?),.*$/$1/U", DUKE, "DUKE"),
        ("RULE:^CN=(.*?),.*$/$1/", "O=Org", None),
        (r"RULE:^CN=(\w+)\/x.*$/a\/$1/", "CN=d/x", "a/d"),
    ],
)
def test_rules(rules: str, name: str, principal: str | None) -> None:
    assert principal_name(parse_rules("key", rules), name) == principal


@pytest.mark.parametrize("rules", ["default", "RULE:x", "RULE:(/x/", "RULE:a/$1/", "DEFAULT DEFAULT", "RULE:a/b/X"])
def test_what_is_no_rule(rules: str) -> None:
    with pytest.raises(SecurityError, match=r"^key: "):
        parse_rules("key", rules)
