"""Paths on S3 for Spark, through Hadoop's S3A, and objects that only one of several writers can make.

S3 has no rename, and a plain write replaces whatever is there. What excludes a second writer there are conditional
writes (`If-None-Match`, `If-Match`), which the client of S3A can do and Hadoop's file system of it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek_pipeline.session import SDK, SDK_BUNDLE, NotInstalled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"s3[an]?://", re.IGNORECASE)
_OF_S3 = "software.amazon.awssdk.services.s3.model."
_NOT_FOUND, _CONFLICT, _PRECONDITION_FAILED = 404, 409, 412

CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)
"""Keys in Spark's configuration, then the SDK's usual chain: environment, profile, container, instance."""


def is_s3(path: str | None) -> bool:
    """Whether a path is on S3."""
    return path is not None and _SCHEME.match(path) is not None


def hadoop_path(path: str) -> str:
    """The path as Hadoop has it: `s3a` is what it calls S3."""
    return _SCHEME.sub("s3a://", path, count=1) if is_s3(path) else path


def configuration(endpoint: str | None, region: str | None) -> dict[str, str]:
    """Spark's configuration for S3, at another server than Amazon's if there is an endpoint."""
    conf = {"spark.hadoop.fs.s3a.aws.credentials.provider": ",".join(CREDENTIALS)}
    if endpoint is not None:
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region is not None:
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    return conf


class Written(NamedTuple):
    """The text of an object, and the tag of what was written."""

    text: str
    tag: str


class Objects:
    """Small objects, through the client of S3A, with its endpoint and credentials. Raises Py4JJavaError of failures."""

    def __init__(self, spark: SparkSession) -> None:
        """Raises NotInstalled if Amazon's SDK is one that cannot write conditionally."""
        from py4j.protocol import Py4JError

        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        try:
            self._model.PutObjectRequest.builder().ifMatch("")
        except (Py4JError, TypeError):
            raise NotInstalled(
                "S3 needs Amazon's SDK 2.30 or newer, for conditional writes: --packages with "
                f"software.amazon.awssdk:s3:{SDK}, and --conf spark.jars.excludes={SDK_BUNDLE}"
            ) from None

    def read(self, path: str) -> Written | None:
        """None if there is none."""
        client, bucket, key = self._at(path)
        request = self._model.GetObjectRequest.builder().bucket(bucket).key(key).build()
        found = self._unless((_NOT_FOUND,), lambda: client.getObjectAsBytes(request))
        return None if found is None else Written(str(found.asUtf8String()), str(found.response().eTag()))

    def write(self, path: str, text: str, instead_of: str | None) -> str | None:
        """Write in place of what has a tag, or (None) where nothing is; its tag, or None if it is not so."""
        client, bucket, key = self._at(path)
        request = self._model.PutObjectRequest.builder().bucket(bucket).key(key)
        request = request.ifNoneMatch("*") if instead_of is None else request.ifMatch(instead_of)
        body = self._jvm.software.amazon.awssdk.core.sync.RequestBody.fromString(text)
        lost = (_NOT_FOUND, _CONFLICT, _PRECONDITION_FAILED)
        answer = self._unless(lost, lambda: client.putObject(request.build(), body))
        return None if answer is None else str(answer.eTag())

    @property
    def _model(self) -> Any:
        return self._jvm.software.amazon.awssdk.services.s3.model

    def _at(self, path: str) -> tuple[Any, str, str]:
        at = self._jvm.org.apache.hadoop.fs.Path(path)
        uri = at.toUri()
        client = at.getFileSystem(self._conf).getS3AInternals().getAmazonS3Client("odradek-pipeline")
        return client, str(uri.getHost()), str(uri.getPath()).lstrip("/")

    def _unless(self, codes: tuple[int, ...], work: Callable[[], Any]) -> Any:
        """What `work` gives; None if S3 answers with one of these codes, which does not mean a missing bucket."""
        from py4j.protocol import Py4JJavaError

        try:
            return work()
        except Py4JJavaError as error:
            java = error.java_exception
            name = str(java.getClass().getName())
            if name.startswith(_OF_S3) and not name.endswith("NoSuchBucketException") and java.statusCode() in codes:
                return None
            raise
