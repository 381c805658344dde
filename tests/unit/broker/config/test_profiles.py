"""Profiles: settings for a purpose, under whatever is set explicitly."""

from __future__ import annotations

import pytest

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.cross_checks import broken_rules
from broker.config.defs import BROKER_CONFIGS
from broker.config.defs.odradek import PROFILES, PURPOSES
from tests.unit.broker.config.loading import load_text

DELAY = "group.initial.rebalance.delay.ms"


def test_without_a_profile_kafkas_defaults_hold() -> None:
    config = load_text("").config
    assert (config.string("odradek.profile"), config.integer(DELAY), config.given) == ("kafka", 3000, {})


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_sets_what_its_table_has_and_draws_no_warning(profile: str) -> None:
    loaded = load_text("", settings=[f"odradek.profile={profile}"])
    assert loaded.warnings == ()
    assert not list(broken_rules(loaded.config))
    for name, text in PROFILES[profile].items():
        assert loaded.config.values[name] == BROKER_CONFIGS[name].parse(text) != BROKER_CONFIGS[name].default, name


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_each_step_of_a_rebalance_takes_tenths_of_a_second_in_the_profile_for_tests(kind: str) -> None:
    config = load_text("odradek.profile=test").config
    assert config.integer(f"group.{kind}.assignment.interval.ms") == 0
    assert config.integer(f"group.{kind}.heartbeat.interval.ms") == 100
    assert config.integer(f"group.{kind}.min.session.timeout.ms") == 100


def test_each_profile_has_a_purpose() -> None:
    assert PROFILES.keys() == PURPOSES.keys()


@pytest.mark.parametrize("where", ["file", "environment", "--set"])
def test_an_explicit_setting_wins_over_the_profile_wherever_either_is_set(where: str) -> None:
    loaded = load_text(
        f"{DELAY}=7" if where == "file" else "odradek.profile=test",
        {f"KAFKA_{DELAY.upper().replace('.', '_')}": "7"} if where == "environment" else {"ODRADEK_PROFILE": "test"},
        [f"{DELAY}=7"] if where == "--set" else ["odradek.profile=test"],
    )
    assert loaded.config.integer(DELAY) == 7
    assert loaded.config.integer("offsets.topic.num.partitions") == 1


def test_an_unknown_profile_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigurationError, match=r"odradek\.profile = 'fast'.*: .*kafka, dev, test"):
        load_text("odradek.profile=fast")


@pytest.mark.parametrize("flushes", ["log.flush.interval.messages", "log.flush.interval.ms"])
def test_files_are_not_synced_in_the_profile_for_tests_unless_flushes_are_asked_for(flushes: str) -> None:
    assert load_text("").config.syncs
    assert not load_text("odradek.profile=test").config.syncs
    assert load_text(f"odradek.profile=test\n{flushes}=1").config.syncs
    assert BrokerConfig.of({"odradek.profile": "test", "odradek.fsync": "true"}).syncs
