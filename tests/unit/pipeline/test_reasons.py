"""What is reported of Spark's errors."""

from __future__ import annotations

import pytest

from odradek_pipeline.reasons import reason

JAVA = """An error occurred while calling o186.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 0.0 (TID 3) (localhost executor driver): java.lang.ArithmeticException: long overflow
\tat java.base/java.lang.Math.multiplyExact(Math.java:1004)
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$3(DAGScheduler.scala:2935)
"""

PROXY = f"""An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "pyspark/sql/utils.py", line 162, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
py4j.protocol.Py4JJavaError: {JAVA}
=== Streaming Query ===
Current State: ACTIVE
"""

WORKER = """Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 7.0 (TID 9) (localhost executor driver): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "pipeline/replay/writer.py", line 90, in write
    raise InputChangedError
odradek_pipeline.replay.progress.InputChangedError: 5 rows were written before, and now there are 4

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""

FILE = """An error occurred while calling o9.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///x.gz.  \
SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:856)
Caused by: java.util.zip.ZipException: not in gzip format
"""

SUPPRESSED = """An error occurred while calling o2344.create.
: org.apache.iceberg.exceptions.ValidationException: Cannot partition by non-primitive source field: struct<11: id>
\tat org.apache.iceberg.PartitionSpec.checkCompatibility(PartitionSpec.java:665)
\tSuppressed: org.apache.spark.util.Utils$OriginalTryStackTraceException: Full stacktrace of original \
doTryWithCallerStacktrace caller
\t\tat org.apache.iceberg.PartitionSpec.checkCompatibility(PartitionSpec.java:665)
"""


@pytest.mark.parametrize(
    ("told", "short"),
    [
        (JAVA, "java.lang.ArithmeticException: long overflow"),
        (PROXY, "java.lang.ArithmeticException: long overflow"),
        (WORKER, "odradek_pipeline.replay.progress.InputChangedError: 5 rows were written before, and now there are 4"),
        (
            FILE,
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///x.gz.: "
            "java.util.zip.ZipException: not in gzip format",
        ),
        (
            SUPPRESSED,
            "org.apache.iceberg.exceptions.ValidationException: "
            "Cannot partition by non-primitive source field: struct<11: id>",
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at 'FOO'. SQLSTATE: 42601 (line 1)\n",
            "[PARSE_SYNTAX_ERROR] Syntax error at 'FOO'.",
        ),
        (
            "pyspark.errors.exceptions.captured.AnalysisException: [PATH_NOT_FOUND] No such path: x. SQLSTATE: 42K03",
            "[PATH_NOT_FOUND] No such path: x.",
        ),
        ("KafkaError{code=_TRANSPORT,val=-195}\nmore", "KafkaError{code=_TRANSPORT,val=-195}"),
        ("", "ValueError"),
    ],
)
def test_the_innermost_cause_is_told_in_one_line(told: str, short: str) -> None:
    assert reason(ValueError(told)) == short
