"""Broker configurations of TLS and SASL (`SslConfigs`, `SaslConfigs`, `BrokerSecurityConfigs`), and of authorization.

Those of TLS and SASL may be set for one listener as `listener.name.<listener>.<name>`; see
`broker.config.listener_settings`.
"""

from __future__ import annotations

from broker.config.definition import (
    DAY_MS,
    HOUR_MS,
    PER_BROKER,
    PER_LISTENER,
    Check,
    Rows,
    at_least,
    boolean,
    class_name,
    entries,
    integer,
    long,
    one_of,
    password,
    string,
)

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_STORE_TYPES = "PEM, PKCS12 or JKS; the content decides between the last two, as in Java"

TLS: Rows = {
    "ssl.keystore.type": string("JKS", f"Kind of `ssl.keystore.location`: {_STORE_TYPES}.", mode=PER_LISTENER),
    "ssl.keystore.location": string(
        None,
        "File with the broker's private key and certificate chain; with PEM also a folder with `tls.key` and "
        "`tls.crt`, as Kubernetes mounts a Secret. It is read again when it changes.",
        mode=PER_LISTENER,
    ),
    "ssl.keystore.password": password(None, "Password of a PKCS12 keystore.", mode=PER_LISTENER),
    "ssl.key.password": password(
        None, "Password of an encrypted private key in a PEM keystore or in `ssl.keystore.key`.", mode=PER_LISTENER
    ),
    "ssl.keystore.key": password(
        None,
        "The private key itself, as PEM (PKCS#8), in place of a file; with `ssl.keystore.type=PEM`.",
        mode=PER_LISTENER,
    ),
    "ssl.keystore.certificate.chain": password(
        None, "The certificate chain itself, as PEM, to go with `ssl.keystore.key`.", mode=PER_LISTENER
    ),
    "ssl.truststore.type": string("JKS", f"Kind of `ssl.truststore.location`: {_STORE_TYPES}.", mode=PER_LISTENER),
    "ssl.truststore.location": string(
        None,
        "File with the certificates that clients' certificates must lead to. It is read again when it changes.",
        mode=PER_LISTENER,
    ),
    "ssl.truststore.password": password(None, "Password of a PKCS12 truststore.", mode=PER_LISTENER),
    "ssl.truststore.certificates": password(
        None,
        "The trusted certificates themselves, as PEM, in place of a file; with `ssl.truststore.type=PEM`.",
        mode=PER_LISTENER,
    ),
    "ssl.enabled.protocols": entries(
        ("TLSv1.2", "TLSv1.3"), "Versions of TLS that are spoken: TLSv1.2, TLSv1.3 or both.", mode=PER_BROKER
    ),
    "ssl.cipher.suites": entries(
        (),
        "Cipher suites by their IANA names, as in Java; empty for the defaults. Of TLSv1.3 all three suites are "
        "named, or none, which switches TLSv1.3 off.",
        mode=PER_BROKER,
    ),
    "ssl.client.auth": string(
        "none",
        "Whether clients must show a certificate. What is shown is always checked.",
        one_of("required", "requested", "none"),
        mode=PER_BROKER,
    ),
    "ssl.principal.mapping.rules": string(
        "DEFAULT",
        "How the distinguished name of a client's certificate becomes the name of its principal: `DEFAULT`, or "
        "`RULE:pattern/replacement/` with `L` or `U` behind it, separated by commas; the first that fits counts.",
    ),
    "ssl.allow.dn.changes": boolean(
        False, "Whether a keystore may be replaced while the broker runs by one with another distinguished name."
    ),
    "ssl.allow.san.changes": boolean(
        False,
        "Whether a keystore may be replaced while the broker runs by one that lacks an alternative name of the old.",
    ),
    "ssl.endpoint.identification.algorithm": string(
        "https",
        "`https` compares the certificate of another broker with the host that is connected to; empty does not.",
        mode=PER_BROKER,
    ),
}

SASL: Rows = {
    "sasl.enabled.mechanisms": entries(
        ("GSSAPI",),
        "Mechanisms that clients of a SASL listener may choose: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. "
        "GSSAPI, Kafka's default, is refused.",
        mode=PER_BROKER,
    ),
    "sasl.jaas.config": password(
        None,
        "A login module and its options, as Java writes them; set it as "
        "`listener.name.<listener>.<mechanism>.sasl.jaas.config`. PlainLoginModule has users as `user_<name>`.",
        mode=PER_BROKER,
    ),
    "sasl.server.callback.handler.class": class_name(
        None,
        "For OAUTHBEARER, Kafka's OAuthBearerValidatorCallbackHandler has signed tokens checked, as setting "
        "`sasl.oauthbearer.jwks.endpoint.url` does here. Other classes are refused.",
    ),
    "sasl.server.max.receive.size": integer(
        512 * 1024, "Largest request of a client that has not authenticated yet.", unit="bytes"
    ),
    "connections.max.reauth.ms": long(
        0, "Time after which a client must authenticate again (KIP-368); 0 for never. May be set per mechanism."
    ),
    "connection.failed.authentication.delay.ms": integer(
        100, "Time for which the answer to wrong credentials is held back, so that guessing is slow.", at_least(0)
    ),
    "sasl.mechanism.inter.broker.protocol": string(
        "GSSAPI",
        "Mechanism by which this node logs in at other brokers: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, with username "
        "and password of the JAAS line.",
        mode=PER_BROKER,
    ),
    "sasl.mechanism.controller.protocol": string("GSSAPI", "The same for controllers."),
    "sasl.oauthbearer.jwks.endpoint.url": string(
        None, "Where the keys are that tokens are signed with (JWKS): an https, http or file URL."
    ),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": long(
        HOUR_MS, "Time after which the keys are read again; an unknown key id has them read at once."
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": long(
        100, "First wait before the keys are asked for again after a failure."
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": long(10_000, "Longest wait of that kind."),
    "sasl.oauthbearer.expected.audience": entries((), "Audiences of which a token must name one."),
    "sasl.oauthbearer.expected.issuer": string(None, "Issuer that a token must name."),
    "sasl.oauthbearer.allow.unverified.audience": boolean(
        False, "Whether `sasl.oauthbearer.expected.audience` may be left out: tokens for anyone are then taken."
    ),
    "sasl.oauthbearer.allow.unverified.issuer": boolean(
        False, "Whether `sasl.oauthbearer.expected.issuer` may be left out: tokens of any issuer are then taken."
    ),
    "sasl.oauthbearer.clock.skew.seconds": integer(30, "By how much the clock of who issues tokens may differ."),
    "sasl.oauthbearer.scope.claim.name": string("scope", "Claim of a token with its scope."),
    "sasl.oauthbearer.sub.claim.name": string("sub", "Claim of a token with the name of its principal."),
}

AUTHORIZATION: Rows = {
    "authorizer.class.name": string(
        "",
        "What decides what clients may do: empty for nothing, so that all may do everything, or the one that there is, "
        f"`{STANDARD_AUTHORIZER}` ([ACLs](acls.md)).",
        Check(lambda _: None, "non-null string"),  # the rule is one of `cross_checks`, as in Kafka
    ),
    "super.users": string(
        "",
        "Principals that may do everything, separated by semicolons: `User:admin;User:CN=broker,O=Example`.",
        of_plugin=True,
    ),
    "allow.everyone.if.no.acl.found": boolean(
        False, "Whether all clients may do everything to a resource that no ACL concerns.", of_plugin=True
    ),
}

TOKENS: Rows = {
    "delegation.token.secret.key": password(
        None, "Key that delegation tokens are made with, the same on all nodes of a cluster; without it there are none."
    ),
    "delegation.token.master.key": password(
        None, "The name of `delegation.token.secret.key` before Kafka 4.0.", of_plugin=True
    ),
    "delegation.token.max.lifetime.ms": long(
        7 * DAY_MS, "The longest life of a delegation token, renewals included.", at_least(1)
    ),
    "delegation.token.expiry.time.ms": long(
        DAY_MS, "The time after which a delegation token must have been renewed.", at_least(1)
    ),
    "delegation.token.expiry.check.interval.ms": long(
        HOUR_MS,
        "Time between two looks for delegation tokens that have expired. A token is useless as soon as it expires.",
        at_least(1),
    ),
}
