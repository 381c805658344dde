"""Names by which people know a command or an option, from Kafka's scripts, kcat and rpk.

A command takes such a name as if its own were given. Where no name of ours means the same, it is refused with what to
write in its place: an `Instead`. Nothing of this is in a help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import click


class Instead(str):
    """What to write in place of a name that is not taken."""

    __slots__ = ()


Names = Mapping[str, Sequence[str] | Instead]
"""What stands for each name, nothing if it is so anyway; its value stays behind it."""

LOGIN = Instead("-X KEY=VALUE and a context (odradek contexts add) say how to log in")
EVERYWHERE: Names = dict.fromkeys(
    ("--command-config", "--consumer.config", "--producer.config", "--consumer-property", "--producer-property"), LOGIN
)
TOPIC: Names = {"--topic": ()}
GROUP: Names = {"--group": ()}
BROKERS = Instead(
    "--broker ID, --all for the default of all brokers; of topics it is odradek topics alter and describe"
)
OF_ENTITIES: Names = dict.fromkeys(("--entity-type", "--entity-name", "--entity-default", "--topic"), BROKERS)
PATTERN = Instead("--prefixed says that names are the beginnings of names; without it they are whole names")
OF_RULES: Names = {
    "--allow-principal": ("--principal",),
    "--deny-principal": ("--deny", "--principal"),
    "--allow-host": ("--host",),
    "--deny-host": ("--host",),
    "--resource-pattern-type": PATTERN,
    "--producer": Instead("--operation write --operation describe --operation create, with --topic"),
    "--consumer": Instead("--operation read --operation describe, with --topic and --group"),
}
OF_PASSWORDS: Names = dict.fromkeys(
    ("-p", "--password", "--new-password"),
    Instead("a password is no argument, which others can read: --password-file FILE, or the first line of the input"),
)

KNOWN_OPTIONS: Mapping[str, Names] = {
    "consume": {
        **TOPIC,
        "-t": (),
        "--from-beginning": (),
        "--read-committed": (),
        "-C": (),
        "--max-messages": ("--count",),
        "--num": ("--count",),
        "-c": ("--count",),
        "--isolation-level": ("--isolation",),
        "--tail": ("--last",),
        "-J": ("--format", "json"),
        "-Z": ("--null", "NULL"),
        "--timeout-ms": Instead("--until-end ends where the partitions end"),
        **dict.fromkeys(("--include", "--regex", "-r"), Instead("name the topics: there are no patterns")),
        **dict.fromkeys(
            ("--property", "--formatter-property", "--formatter"), Instead("--format '%k %v\\n' prints keys too")
        ),
    },
    "produce": {
        **TOPIC,
        "-t": (),
        "-P": (),
        "--sync": (),
        "--request-required-acks": ("--acks",),
        "--compression-codec": ("--compression",),
        **dict.fromkeys(
            ("--property", "--reader-property"), Instead("--key-delimiter TEXT is what divides key and value")
        ),
    },
    "topics create": TOPIC,
    "topics describe": {
        **TOPIC,
        **dict.fromkeys(
            ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"),
            Instead("odradek cluster status lists partitions that lack replicas or a leader"),
        ),
    },
    "topics alter": {
        **TOPIC,
        "--set": ("--config",),
        "--delete": ("--unset",),
        "--delete-config": ("--unset",),
        "--num": Instead("--partitions says how many there are to be in all"),
    },
    "topics delete": TOPIC,
    "topics list": {"--exclude-internal": ()},
    "topics trim": {**TOPIC, "--offset": ("--to",)},
    "groups describe": {
        **GROUP,
        **dict.fromkeys(("--all-groups", "--members", "--offsets", "--state", "--verbose"), ()),
    },
    "groups delete": GROUP,
    "groups delete-offsets": GROUP,
    "groups reset-offsets": {
        **GROUP,
        "--to-earliest": ("--to", "start"),
        "--to-latest": ("--to", "end"),
        "--to-offset": ("--to",),
        "--shift-by": ("--by",),
        "--topics": ("--topic",),
        "--all-topics": (),
        "--execute": (),
        "--to-datetime": Instead("--to 2026-01-31T12:00:00Z; without Z it is this machine's time"),
        "--by-duration": Instead("--to -90s, -15m, -2h or -7d"),
    },
    "acls add": OF_RULES,
    "acls list": OF_RULES,
    "acls remove": {**OF_RULES, "--force": ("--yes",)},
    "users add": OF_PASSWORDS,
    "configs list": OF_ENTITIES,
    "configs set": {**OF_ENTITIES, "--add-config": Instead("KEY=VALUE, as often as needed")},
    "configs unset": {**OF_ENTITIES, "--delete-config": Instead("KEY, as often as needed")},
    "client-metrics set": {"--name": ()},
    "client-metrics delete": {"--name": ()},
    "tokens create": {
        "--owner-principal": ("--owner",),
        "--renewer-principal": ("--renewer",),
        "--max-life-time-period": Instead("--lifetime 7d"),
    },
    "tokens list": {"--owner-principal": ("--owner",)},
    "tokens renew": {"--renew-time-period": Instead("--for 7d"), "--hmac": Instead("the id of the token")},
    "tokens expire": {"--expiry-time-period": Instead("--in 1h"), "--hmac": Instead("the id of the token")},
    "cluster log-dirs": {
        "--describe": (),
        "--broker-list": Instead("--broker ID, as often as needed"),
        "--topic-list": Instead("--topic NAME, as often as needed"),
    },
    "cluster unregister": {"--id": ()},
    "features upgrade": {"--feature": ()},
    "features downgrade": {"--feature": ()},
    "reassign start": {"--reassignment-json-file": Instead("orders:0=1,2,3 names the brokers of a partition")},
    "transactions describe": {"--transactional-id": ()},
    "transactions abort": {"--transactional-id": ()},
    "bench produce": {**TOPIC, "--record-size": ("--size",)},
    "bench consume": TOPIC,
    "bench latency": TOPIC,
}
"""By the command, with its group's name before it."""

SYNONYMS = {"ls": "list", "show": "describe", "get": "describe", "new": "create", "rm": "delete", "remove": "delete"}
SYNONYMS |= {"add": "create", "set": "alter", "edit": "alter", "purge": "trim", "save": "create", "load": "restore"}
SYNONYMS |= {"delete": "remove", "create": "add", "describe": "list", "alter": "set"}
"""Words that people try; one counts where the group has no such command, but the other."""

STATUS = dict.fromkeys(("info", "describe", "list", "health", "metadata", "id"), "status")
KNOWN_COMMANDS: Mapping[str, Mapping[str, str]] = {
    "topics": {"alter-config": "alter", "add-partitions": "alter", "trim-prefix": "trim"},
    "groups": {"seek": "reset-offsets", "offset-delete": "delete-offsets"},
    "configs": {"get": "list"},
    "cluster": {**STATUS, "logdirs": "log-dirs"},
    "reassign": {"execute": "start", "move": "start", "verify": "list"},
}
"""More of them, by group."""

SCRIPTS = {
    "quorum": "cluster quorum",
    "metadata-quorum": "cluster quorum",
    "features": "cluster features",
    "log-dirs": "cluster log-dirs",
    "broker-api-versions": "cluster features",
    "leader-election": "elect",
    "reassign-partitions": "reassign",
    "get-offsets": "topics describe",
    "delete-records": "topics trim",
    "lag": "check lag",
    "consumer-groups": "groups",
    "share-groups": "groups",
    "streams-groups": "groups",
    "console-consumer": "consume",
    "console-producer": "produce",
    "delegation-tokens": "tokens",
    "producer-perf-test": "bench produce",
    "consumer-perf-test": "bench consume",
    "e2e-latency": "bench latency",
    "storage": "format",
    "dump-log": "log dump",
    "metadata-shell": "metadata dump",
    "version": "--version",
}
"""Kafka's scripts, without `kafka-`, and other words, for which one is told what to write."""


def known_command(group: str | None, word: str) -> str:
    """The name of a group's command for a word that is none."""
    return KNOWN_COMMANDS.get(group or "", {}).get(word) or SYNONYMS.get(word, word)


class WithKnownNames(click.Command):
    """A command that takes the names of KNOWN_OPTIONS. Raises UsageError for an `Instead`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        group = ctx.parent.command.name if ctx.parent is not None and ctx.parent.parent is not None else None
        known = {**EVERYWHERE, **KNOWN_OPTIONS.get(f"{group} {self.name}" if group else str(self.name), {})}
        for parameter in self.params:
            for name in parameter.opts:
                known.pop(name, None)
        found: list[str] = []
        for number, argument in enumerate(args):
            if argument == "--":
                found += args[number:]
                break
            option, has_value, value = argument.partition("=")
            own = known.get(option)
            if isinstance(own, Instead):
                ctx.fail(f"No such option {option!r}. In its place: {own}")
            found += [argument] if own is None else [*own, value] if has_value else own
        return super().parse_args(ctx, found)


PLANNED = {"reset-offsets": "--dry-run"}
"""Commands that Kafka's scripts only plan without `--execute`, and the option that does so here."""


def command_first(args: list[str], is_command: Callable[[str], bool]) -> list[str]:
    """Have arguments such as `--topic orders --create`, as Kafka's scripts take them, begin with the command."""
    if not args or not args[0].startswith("-"):
        return args
    for number, argument in enumerate(args):
        name = argument.removeprefix("--")
        if name != argument and is_command(name):
            plan = [PLANNED[name]] if name in PLANNED and not {"--execute", PLANNED[name]} & {*args} else []
            return [name, *args[:number], *args[number + 1 :], *plan]
    return args
