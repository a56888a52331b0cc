"""Mistakes on the way from what is wrong to somebody who knows."""

from typing import Final

from tests.mutants.copy import Mutant

_ALERTS: Final = "layers/core/python/firn/alerts"
_ROUNDS: Final = "tests/unit/alerts/test_alert_round.py"

MUTANTS: Final = (
    Mutant(
        "a message is sent by who has not claimed it",
        f"{_ALERTS}/alert_delivery.py",
        "if not alert_log.claim(store, due.alert, due.moment, due.target.name, due.k, uuid.uuid4().hex):",
        "if alert_log.claim(store, due.alert, due.moment, due.target.name, due.k, uuid.uuid4().hex) is None:",
        (f"{_ROUNDS}::test_rounds_at_once_tell_nobody_twice",),
    ),
    Mutant(
        "a message whose sender died counts as sent",
        "layers/core/python/firn/log/alert_log.py",
        'return self.outcome or ("unknown" if is_past(self.at, STALE, now) else None)',
        'return self.outcome or ("sent" if is_past(self.at, STALE, now) else None)',
        (f"{_ROUNDS}::test_whoever_dies_anywhere_the_next_round_finishes_it[before]",),
    ),
    Mutant(
        "an alert that lasts begins again in each round",
        f"{_ALERTS}/alert_round.py",
        "if newest is not None and newest.ended_at is None and alert_log.begun_of(store, newest) is not None:",
        "if newest is not None and newest.ended_at is None and alert_log.begun_of(store, newest) is None:",
        (f"{_ROUNDS}::test_what_is_held_is_told_once_when_it_begins_and_once_when_it_ends",),
    ),
    Mutant(
        "a target that is away is tried before those that heard nothing yet",
        f"{_ALERTS}/alert_delivery.py",
        "return [one for _, one in sorted(order, key=lambda placed: placed[0])]",
        "return [one for _, one in order]",
        (f"{_ROUNDS}::test_a_target_that_is_away_and_has_much_to_hear_keeps_no_other_waiting",),
    ),
    Mutant(
        "who dies at the last try told nobody, and nobody counts it",
        f"{_ALERTS}/alert_round.py",
        " + note_deaths(store, recent, now)",
        "",
        (f"{_ROUNDS}::test_who_dies_at_the_last_try_is_counted_as_telling_nobody_once",),
    ),
    Mutant(
        "a stream that firn.yaml no longer has is fresh again",
        f"{_ALERTS}/alert_round.py",
        'if place in watched or begun.on == rule.on == "quarantine" else',
        "if True else",
        (f"{_ROUNDS}::test_a_stream_that_firn_yaml_no_longer_has_is_not_said_to_be_well",),
    ),
    Mutant(
        "one public address makes all of a host's good",
        f"{_ALERTS}/webhook.py",
        "if not local and not all(map(is_public, addresses)):",
        "if not local and not any(map(is_public, addresses)):",
        ("tests/unit/alerts/test_webhook.py::test_one_address_of_this_machine_among_public_ones_is_too_many",),
    ),
    Mutant(
        "a clock that was set back silences an alert until it is there again",
        "layers/core/python/firn/log/alert_log.py",
        "return now - since >= least or since - now > _SKEW",
        "return now - since >= least",
        (f"{_ROUNDS}::test_a_clock_that_was_set_back_keeps_nobody_from_being_told",),
    ),
    Mutant(
        "addresses are public because this Python says so",
        f"{_ALERTS}/public_address.py",
        "return public and not any(found in network for network in _NOT_IPV4)",
        "return public",
        ("tests/unit/alerts/test_public_address.py::test_no_others_are[192.0.0.9]",),
    ),
)
