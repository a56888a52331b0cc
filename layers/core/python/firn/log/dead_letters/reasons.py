"""What to do about each reason of a dead letter, in a line. docs/dead-letters.md says more about each."""

from typing import Final

_BY_HAND: Final = "correct it by hand: firn dead export, edit `original`, firn dead replay --from FILE"
_ENVELOPE: Final = "look whether the stream's `envelope` in firn.yaml is what the source sends; else " + _BY_HAND
_SPLIT: Final = "have the sender of the queue message split it; else " + _BY_HAND

ADVICE: Final[dict[str, str]] = {
    "bad_json": "the bytes were broken on their way; have the source send the event again, or " + _BY_HAND,
    "not_utf8": "the bytes were broken on their way; have the source send the event again, or " + _BY_HAND,
    "empty": "it holds no event: nothing is lost; leave it, it expires",
    "not_an_object": _ENVELOPE,
    "too_deep": "the event is nested deeper than JSON readers go; have the source send that column as text",
    "too_many_events": _SPLIT,
    "too_many_tables": "raise `max_tables` of the stream or name the table in firn.yaml, then replay; or " + _SPLIT,
    "too_many_columns": "make the source send fewer columns, or raise FIRN_MAX_COLUMNS; then " + _BY_HAND,
    "event_too_large": "leave the event's largest column out at the source, or raise FIRN_MAX_EVENT_BYTES",
    "too_much_repeated": "have the emitter send fewer rows an event",
    "too_much_rejected": _ENVELOPE,
    "bad_event": _ENVELOPE,
    "missing_op": _ENVELOPE,
    "unknown_op": _ENVELOPE,
    "missing_table": _ENVELOPE,
    "missing_image": "have the source send the row (REPLICA IDENTITY FULL) or the record's key; else " + _BY_HAND,
    "no_table": "have the sender name the table (attribute `table`), or write `table_by` into firn.yaml; then replay",
    "unknown_table": "add a rule for the table to firn.yaml and replay, or leave the letter, it expires",
    "bad_table": "correct `to` of the table's rule in firn.yaml, so that it gives a name; then replay",
    "reserved_name": "give the source table a rule of its own in firn.yaml with another name in `to`; then replay",
    "ambiguous_table": "leave one rule that the table fits in firn.yaml, or have the source send the schema; replay",
    "filtered_table": "no rule takes the table now: add one to firn.yaml and replay, or leave the letter, it expires",
    "bad_position": "set or correct the stream's `order_by` in firn.yaml; else " + _BY_HAND,
    "no_order": "have the source send the field of `order_by` with the delete; for a truncate delete the rows; else "
    + _BY_HAND,
    "future_order": "a clock was wrong: correct the time in the row and replay, or replay once that time has come",
    "bad_schema": "the inline schema can't be read: switch it off at the source, then " + _BY_HAND,
    "bad_image": _BY_HAND,
    "no_key": "correct the table's `key` in firn.yaml; else have the source send the whole row, or " + _BY_HAND,
    "type_mismatch": "correct the column's type under `columns` in firn.yaml, or " + _BY_HAND,
    "missing_field": "have the sender send the field, or give it a `default` in the schema and replay; else "
    + _BY_HAND,
    "unknown_field": "add the field to the schema in firn.yaml, or write `unknown: keep` there; then replay",
    "invalid_rows": "have the sender correct the rows, or correct the schema in firn.yaml; then " + _BY_HAND,
    "out_of_range": "widen the column's type, or write `out_of_range: null` in firn.yaml; then replay",
    "message_conflict": "a queue message id came with two bodies: if this one is another change, replay it",
    "bad_record": "the record was broken on its way, or is of another form than the stream's; have it sent again, or "
    + _BY_HAND,
    "no_registry": "write kafka: {registry: {url: …}} of the stream into firn.yaml; decode this letter, or " + _BY_HAND,
    "unknown_schema": "look whether `registry` names the registry that the producers use; decode this letter, or "
    + _BY_HAND,
    "unreadable_body": "its gzip was broken on its way; have it sent again, or " + _BY_HAND,
    "inflates_too_large": "have the producer put less into a record; raise FIRN_MAX_INFLATED_BYTES; or " + _BY_HAND,
    "too_many_members": "have the producer compress a record as one; or " + _BY_HAND,
    "pipeline_failed": "correct the pipeline's SQL in firn.yaml (TRY_CAST for CAST, say), then replay; or " + _BY_HAND,
    "too_many_folders": "take the column with so many values out of `path` of the pipeline's files, then replay",
    "outside_writer": "have it sent by one who may write it; or correct `rows` and `tables` of the writer in firn.yaml "
    "and replay",
    "sender_not_allowed": "have it sent by one who may, or list the sender as `queue` in firn.yaml, and have it sent "
    "again; a replay leaves it, unless you hand it back: firn dead export, firn dead replay --from FILE",
    "internal": "Firn failed on this event: report it with the message; once it is fixed, replay the letter",
    "too_old": "the change is older than the memory of deletes; look whether its row still exists at the source",
}


# What a message holds -> what to do, where it is likelier than all that its reason may mean.
_LIKELY: Final = {
    "decimal.handling.mode: string": "write `debezium: {decimal.handling.mode: string}` of the stream into firn.yaml "
    "if the source sends decimals as text, then replay",
}


def advice(reason: str, message: str = "") -> str:
    """What to do about it, the likely cause first; for a reason of a newer Firn, where to look. `message`: what is said
    of the letter."""
    for words, likely in _LIKELY.items():
        if words in message:
            return f"{likely}; else {ADVICE[reason]}" if reason in ADVICE else likely
    return ADVICE.get(reason, "look the reason up in docs/dead-letters.md")
