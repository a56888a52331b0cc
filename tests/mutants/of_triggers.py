"""Mistakes on the way from a stream that triggers functions to the log."""

from typing import Final

from tests.mutants.copy import Mutant

_CORE: Final = "layers/core/python/firn"
_STAGING: Final = f"{_CORE}/triggers/staging.py"
_TESTS: Final = "tests/unit/triggers/test_staging.py"

MUTANTS: Final = (
    Mutant(
        "a part of a batch that storage did not take counts as staged",
        _STAGING,
        "            except FirnError as error:\n                outcome.fail(at, error)\n",
        "            except FirnError:\n                pass\n",
        (f"{_TESTS}::test_while_storage_is_away_nothing_is_staged_and_all_comes_again",
         f"{_TESTS}::test_a_batch_of_too_many_events_is_several_objects_and_fails_from_the_first_that_is_not_there"),
    ),
    Mutant(
        "what comes before a record that can't be read now is not staged, and not brought again",
        _STAGING,
        "            if part:\n                yield part\n            raise message\n",
        "            raise message\n",
        ("tests/unit/triggers/test_kafka_values.py"
         "::test_while_the_registry_is_away_what_came_before_is_staged_and_the_rest_comes_again",),
    ),
    Mutant(
        "records of a source that firn.yaml does not name are dropped",
        _STAGING,
        "            outcome.fail(place, ConfigError(text))\n",
        "            text.strip()\n",
        (f"{_TESTS}::test_a_source_that_firn_yaml_does_not_name_is_not_taken",),
    ),
    Mutant(
        "a batch of Kafka that is not staged is committed",
        "functions/ingest_stream/app.py",
        '    if delivery.kind == "kafka":',
        '    if delivery.kind == "nothing":',
        ("tests/unit/functions/test_ingest_stream.py"
         "::test_while_storage_is_away_a_batch_comes_again_from_its_first_record",),
    ),
    Mutant(
        "sequence numbers are compared by their last digits first",
        f"{_CORE}/changes/record.py",
        "    return _MARK | high, low << 128 | inside\n",
        "    return _MARK | low, high << 128 | inside\n",
        (f"{_TESTS}::test_sequence_numbers_are_compared_as_numbers_and_those_of_later_shards_are_higher",),
    ),
    Mutant(
        "a dead letter of a record with several events forgets which it was",
        f"{_CORE}/ingest/record_values.py",
        "first=record.first + one.index",
        "first=record.first",
        (f"{_TESTS}::test_one_of_several_events_of_a_record_keeps_its_number_when_it_is_replayed",),
    ),
    Mutant(
        "a floor made of one shard's places makes the new rows of another too old",
        f"{_CORE}/tables/table_state.py",
        "    if by_record(floor):\n",
        "    if by_record(floor[1:]):\n",
        (f"{_TESTS}::test_no_delete_at_a_records_place_is_forgotten_and_no_floor_made_of_one_counts",),
    ),
)  # fmt: skip
