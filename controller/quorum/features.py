"""The levels of features that a release of Kafka begins a cluster with (Kafka's `MetadataVersion` and `Feature`)."""

from __future__ import annotations

from collections.abc import Mapping

from metadata.settings import KRAFT_VERSION, METADATA_VERSION

LOWEST_LEVEL = 7

_VERSIONS = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"),
    *("4.4-IV0", "4.4-IV1", "4.4-IV2"),
)
METADATA_VERSIONS: Mapping[str, int] = {name: level for level, name in enumerate(_VERSIONS, LOWEST_LEVEL)}
"""The level of each version of the metadata's format."""

LATEST_LEVEL = METADATA_VERSIONS["4.4-IV2"]
SCRAM_SINCE = METADATA_VERSIONS["3.5-IV2"]

_SINCE = {
    "eligible.leader.replicas.version": ("4.1-IV0",),
    "group.version": ("4.0-IV0",),
    KRAFT_VERSION: ("3.9-IV0",),
    "share.version": ("4.2-IV0", "4.4-IV0"),
    "streams.version": ("4.2-IV1",),
    "transaction.version": ("4.0-IV2", "4.0-IV2"),
}
"""The version of the metadata from which on a new cluster has level 1, 2 and so on of a feature."""

_NEEDS = {("eligible.leader.replicas.version", 1): METADATA_VERSIONS["4.0-IV1"]}
"""The lowest level of `metadata.version` with which a level works, where that is not the lowest of all."""


class FeatureError(ValueError):
    """There is no such feature or level, or it does not go together with others."""


def version_name(level: int) -> str:
    """The name of a level of `metadata.version`, such as 4.4-IV2; its number if this release does not know it."""
    at = level - LOWEST_LEVEL
    return _VERSIONS[at] if 0 <= at < len(_VERSIONS) else str(level)


def level_of_release(release: str) -> int:
    """The level of `metadata.version` of a release (4.1, or 4.1.2) or of one version (4.1-IV0). Raises FeatureError."""
    wanted = ".".join(release.split(".")[:2])
    levels = [level for name, level in METADATA_VERSIONS.items() if wanted in (name, name.partition("-")[0])]
    if not levels:
        raise FeatureError(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(_VERSIONS)}"
        )
    return levels[-1]


def default_levels(metadata_level: int) -> dict[str, int]:
    """Return a new cluster's levels with that level of `metadata.version`, which is among them; 0 is not finalized."""
    levels = {
        name: sum(METADATA_VERSIONS[since] <= metadata_level for since in versions) for name, versions in _SINCE.items()
    }
    return {METADATA_VERSION: metadata_level, **levels}


def chosen_levels(release: str | None, given: Mapping[str, int], *, dynamic: bool) -> dict[str, int]:
    """The levels for a release (the latest without one), except for those that are `given`.

    `dynamic`: the voters are in the log, which is what level 1 of `kraft.version` means. Raises FeatureError.
    """
    if METADATA_VERSION in given and release is not None:
        raise FeatureError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    metadata_level = given.get(METADATA_VERSION, LATEST_LEVEL) if release is None else level_of_release(release)
    if not LOWEST_LEVEL <= metadata_level <= LATEST_LEVEL:
        raise FeatureError(
            f"No metadata.version with feature level {metadata_level}. Valid feature levels are from {LOWEST_LEVEL} to "
            f"{LATEST_LEVEL}."
        )
    levels = {**default_levels(metadata_level), KRAFT_VERSION: int(dynamic), **given}
    for name, level in levels.items():
        if name != METADATA_VERSION:
            _check(name, level, metadata_level)
    if levels[KRAFT_VERSION] != dynamic:
        raise FeatureError(
            f"kraft.version={levels[KRAFT_VERSION]} is for {'static' if dynamic else 'dynamic'} voters: "
            + ("leave out --standalone." if dynamic else "it needs --standalone, and no controller.quorum.voters.")
        )
    return levels


def _check(name: str, level: int, metadata_level: int) -> None:
    if name not in _SINCE:
        raise FeatureError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(_SINCE))}")
    if not 0 <= level <= len(_SINCE[name]):
        raise FeatureError(f"No feature:{name} with feature level {level}")
    needed = _NEEDS.get((name, level), LOWEST_LEVEL)
    if metadata_level < needed:
        raise FeatureError(f"{name} could not be set to {level} because it depends on metadata.version level {needed}")
