"""The commands of `odradek` that are clients of a Kafka cluster, of any: they need the extra `cli`.

confluent-kafka does the work; what it has no API for (transactions, all kinds of ACLs, quotas, reassignments) is done
by kafka-python. Each command is a module, which is imported when the command is used.
"""
