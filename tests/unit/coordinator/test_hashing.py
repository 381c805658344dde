"""Where Apache Kafka 4.1 was seen to put groups, and what Java says of strings."""

import pytest

from coordinator.hashing import java_string_hash, partition_for, utf16_length


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("é", 233), ("😀", 55357 * 31 + 56832)],
)
def test_string_hash_code(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("", 0),
        ("oh-grp", 27),
        ("ohh-plain", 46),
        ("ohh-grüße", 7),
        ("ohh-😀", 43),
        ("ohh-日本語", 37),
        ("ohh-\uffff", 19),
        ("ohh-" + "z" * 200, 40),
        ("polygenelubricants", 0),  # hashes to -2^31, which has no absolute value
    ],
)
def test_the_partition_of_a_group_is_kafkas(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition


@pytest.mark.parametrize(("text", "length"), [("", 0), ("abc", 3), ("é", 1), ("日本", 2), ("a😀", 3)])
def test_length_counts_utf16_units(text: str, length: int) -> None:
    assert utf16_length(text) == length
