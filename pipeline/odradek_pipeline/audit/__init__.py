"""`odradek-pipeline audit`: whether a table, another topic or the other replicas have what a topic has, without Spark.

Both sides are read once, column by column, into a count and a hash for every 1,000 offsets (`digests`). Where these are
equal, nothing more is read. Where they differ, both sides are read again there, and compared record by record
(`compare`). So the memory is that of one chunk, however long the topic is.
"""
