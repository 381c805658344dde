"""Broker configurations of TLS and SASL (`SslConfigs`, `SaslConfigs`, `BrokerSecurityConfigs`).

Each may be set for one listener as `listener.name.<listener>.<name>`; see `broker.config.listener_settings`.
"""

from __future__ import annotations

from broker.config.definition import HOUR_MS, ConfigDef, ConfigType, UpdateMode, at_least, one_of

BOOLEAN, CLASS, INT, LIST, LONG, PASSWORD, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.CLASS,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.PASSWORD,
    ConfigType.STRING,
)
PER_BROKER, PER_LISTENER = UpdateMode.PER_BROKER, UpdateMode.PER_LISTENER

_STORE_TYPES = "PEM, PKCS12 or JKS; the content decides between the last two, as in Java"

TLS_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "ssl.keystore.type", STRING, "JKS", f"Kind of `ssl.keystore.location`: {_STORE_TYPES}.", mode=PER_LISTENER
    ),
    ConfigDef(
        "ssl.keystore.location",
        STRING,
        None,
        "File with the broker's private key and certificate chain; with PEM also a folder with `tls.key` and "
        "`tls.crt`, as Kubernetes mounts a Secret. It is read again when it changes.",
        mode=PER_LISTENER,
    ),
    ConfigDef("ssl.keystore.password", PASSWORD, None, "Password of a PKCS12 keystore.", mode=PER_LISTENER),
    ConfigDef(
        "ssl.key.password",
        PASSWORD,
        None,
        "Password of an encrypted private key in a PEM keystore or in `ssl.keystore.key`.",
        mode=PER_LISTENER,
    ),
    ConfigDef(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "The private key itself, as PEM (PKCS#8), in place of a file; with `ssl.keystore.type=PEM`.",
        mode=PER_LISTENER,
    ),
    ConfigDef(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificate chain itself, as PEM, to go with `ssl.keystore.key`.",
        mode=PER_LISTENER,
    ),
    ConfigDef(
        "ssl.truststore.type", STRING, "JKS", f"Kind of `ssl.truststore.location`: {_STORE_TYPES}.", mode=PER_LISTENER
    ),
    ConfigDef(
        "ssl.truststore.location",
        STRING,
        None,
        "File with the certificates that clients' certificates must lead to. It is read again when it changes.",
        mode=PER_LISTENER,
    ),
    ConfigDef("ssl.truststore.password", PASSWORD, None, "Password of a PKCS12 truststore.", mode=PER_LISTENER),
    ConfigDef(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The trusted certificates themselves, as PEM, in place of a file; with `ssl.truststore.type=PEM`.",
        mode=PER_LISTENER,
    ),
    ConfigDef(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "Versions of TLS that are spoken: TLSv1.2, TLSv1.3 or both.",
        mode=PER_BROKER,
    ),
    ConfigDef(
        "ssl.cipher.suites",
        LIST,
        (),
        "Cipher suites by their IANA names, as in Java; empty for the defaults. Of TLSv1.3 all three suites are named, "
        "or none, which switches TLSv1.3 off.",
        mode=PER_BROKER,
    ),
    ConfigDef(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must show a certificate. What is shown is always checked.",
        one_of("required", "requested", "none"),
        mode=PER_BROKER,
    ),
    ConfigDef(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "How the distinguished name of a client's certificate becomes the name of its principal: `DEFAULT`, or "
        "`RULE:pattern/replacement/` with `L` or `U` behind it, separated by commas; the first that fits counts.",
    ),
    ConfigDef(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        "Whether a keystore may be replaced while the broker runs by one with another distinguished name.",
    ),
    ConfigDef(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        "Whether a keystore may be replaced while the broker runs by one that lacks an alternative name of the old.",
    ),
    ConfigDef(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "`https` compares the certificate of another broker with the host that is connected to; empty does not.",
        mode=PER_BROKER,
    ),
)

SASL_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "sasl.enabled.mechanisms",
        LIST,
        ("GSSAPI",),
        "Mechanisms that clients of a SASL listener may choose: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. "
        "GSSAPI, Kafka's default, is refused.",
        mode=PER_BROKER,
    ),
    ConfigDef(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "A login module and its options, as Java writes them; set it as "
        "`listener.name.<listener>.<mechanism>.sasl.jaas.config`. PlainLoginModule has users as `user_<name>`.",
        mode=PER_BROKER,
    ),
    ConfigDef(
        "sasl.server.callback.handler.class",
        CLASS,
        None,
        "For OAUTHBEARER, Kafka's OAuthBearerValidatorCallbackHandler has signed tokens checked, as setting "
        "`sasl.oauthbearer.jwks.endpoint.url` does here. Other classes are refused.",
    ),
    ConfigDef(
        "sasl.server.max.receive.size",
        INT,
        512 * 1024,
        "Largest request of a client that has not authenticated yet.",
        unit="bytes",
    ),
    ConfigDef(
        "connections.max.reauth.ms",
        LONG,
        0,
        "Time after which a client must authenticate again (KIP-368); 0 for never. May be set per mechanism.",
        unit="ms",
    ),
    ConfigDef(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "Time for which the answer to wrong credentials is held back, so that guessing is slow.",
        at_least(0),
        "ms",
    ),
    ConfigDef(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        "Mechanism by which this node logs in at other brokers: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, with username "
        "and password of the JAAS line.",
        mode=PER_BROKER,
    ),
    ConfigDef(
        "sasl.mechanism.controller.protocol",
        STRING,
        "GSSAPI",
        "The same for controllers.",
    ),
    ConfigDef(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the keys are that tokens are signed with (JWKS): an https, http or file URL.",
    ),
    ConfigDef(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        HOUR_MS,
        "Time after which the keys are read again; an unknown key id has them read at once.",
        unit="ms",
    ),
    ConfigDef(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "First wait before the keys are asked for again after a failure.",
        unit="ms",
    ),
    ConfigDef(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, "Longest wait of that kind.", unit="ms"
    ),
    ConfigDef("sasl.oauthbearer.expected.audience", LIST, (), "Audiences of which a token must name one."),
    ConfigDef("sasl.oauthbearer.expected.issuer", STRING, None, "Issuer that a token must name."),
    ConfigDef(
        "sasl.oauthbearer.allow.unverified.audience",
        BOOLEAN,
        False,
        "Whether `sasl.oauthbearer.expected.audience` may be left out: tokens for anyone are then taken.",
    ),
    ConfigDef(
        "sasl.oauthbearer.allow.unverified.issuer",
        BOOLEAN,
        False,
        "Whether `sasl.oauthbearer.expected.issuer` may be left out: tokens of any issuer are then taken.",
    ),
    ConfigDef(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "By how much the clock of who issues tokens may differ.",
        unit="s",
    ),
    ConfigDef("sasl.oauthbearer.scope.claim.name", STRING, "scope", "Claim of a token with its scope."),
    ConfigDef("sasl.oauthbearer.sub.claim.name", STRING, "sub", "Claim of a token with the name of its principal."),
)
