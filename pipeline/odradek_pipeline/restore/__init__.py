"""`odradek-pipeline restore`: topics from data folders, backups and raw tables, into a data folder or a cluster.

Of data folders the batches are taken as they are, each from a replica that has it whole (`merged`); of a table rows are
put in their order and become batches (`rows`). A data folder gets segments with the same offsets (`into_data`). Brokers
assign offsets themselves, so a topic of a cluster gets others, and a map of them is written (`into_topic`), by which
consumer groups are moved (`groups`). At the end `audit` compares the result with the source.
"""
