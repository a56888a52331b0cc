"""Mistakes on the way from a request to a sealed epoch."""

from typing import Final

from tests.mutants.copy import Mutant

_CORE: Final = "layers/core/python/firn"
_UNIT: Final = "tests/unit"
_INGEST: Final = f"{_CORE}/ingest/accept.py"
_STORE: Final = f"{_CORE}/log/store.py"
_EPOCHS: Final = f"{_CORE}/log/epochs.py"
_QUEUE: Final = f"{_CORE}/ingest/queue.py"
_AUTH: Final = "tests/attacks/test_auth.py"
_WRITERS: Final = "tests/attacks/test_writers.py"
_OTHER_KEY: Final = "{a: {auth: {queue: [AROAACMEACMEACMEACME0]}, rows: \"region = 'eu'\"}}-not in the key"
_STRANGER: Final = "AIDASTRANGERSTRANGER0"

MUTANTS: Final = (
    Mutant(
        "a reader's seconds are those of a link that another function made",
        "layers/core/python/firn/log/query_usage.py",
        "            newest = _look(store, reader, month, newest)\n",
        "            newest = _Newest(newest.n + 1, newest.used)\n",
        (
            "tests/unit/log/test_query_usage.py"
            "::test_a_function_that_has_not_heard_of_others_answers_one_query_more_at_most",
        ),
    ),
    Mutant(
        "a result is handed over though its grant was taken back meanwhile",
        "layers/core/python/firn/log/query_results.py",
        "if self._sha and not is_current(self._store, self._sha):",
        "if self._sha and not self._sha:",
        (
            "tests/unit/functions/test_query.py"
            "::test_a_result_that_was_written_while_its_grant_was_taken_back_is_nobodys",
        ),
    ),
    Mutant(
        "an account begins each month with the epochs of the one before",
        "layers/core/python/firn/usage/stream_account.py",
        "account.month else Account(FORMAT, account.stream, month, account.counted, {})",
        "account.month else replace(account, month=month)",
        ("tests/unit/usage/test_stream_account.py::test_counting_begins_with_the_next_epoch_and_goes_on_over_months",),
    ),
    Mutant(
        "a request is acknowledged before it is staged",
        _INGEST,
        "if not put_if_absent(store, path, data):",
        "if not data:",
        (f"{_UNIT}/ingest/test_accept.py::test_an_accepted_request_is_one_staged_object",),
    ),
    Mutant(
        "a request is acknowledged while storage is away",
        "functions/ingest_http/app.py",
        'return unavailable("storage_unavailable", "nothing was taken; retry")',
        "return json_response(202, {})",
        ("tests/unit/functions/test_ingest_http.py::test_storage_away_is_a_503_and_the_retry_lands_once",
         "tests/unit/functions/test_ingest_http.py::test_an_unclear_put_is_a_503_with_retry_after"),
    ),
    Mutant(
        "a queue message reaches a stream that knows its senders",
        "layers/core/python/firn/config/model.py",
        "sqs = any(auth.queue for auth in auths) or not any(auth.knows_senders for auth in auths)",
        "sqs = True",
        (f"{_AUTH}::test_a_queue_message_reaches_no_stream_that_knows_its_senders",
         f"{_AUTH}::test_a_queue_of_a_streams_own_reaches_it_and_no_other"),
    ),
    Mutant(
        "an image that says another tenant is not looked at where one says the writer's own",
        f"{_CORE}/changes/writer_bounds.py",
        "elif not _is_silent(condition, image):",
        "elif name in by and not _is_silent(condition, image):",
        (f"{_WRITERS}::test_what_is_not_the_writers_is_refused_whole",),
    ),
    Mutant(
        "a truncate is within a writer's rows",
        f"{_CORE}/changes/writer_bounds.py",
        'if op == "t":',
        'if op == "t" and after is None:',
        (f"{_WRITERS}::test_what_is_not_the_writers_is_refused_whole",),
    ),
    Mutant(
        "a writer is bound to columns that are not in a mirror's key",
        f"{_CORE}/config/writers.py",
        "return sorted(self.rows.fields - {*(key or ())}) if self.rows is not None else []",
        "return []",
        (f"{_WRITERS}::test_writers_that_bound_nothing_are_refused_at_publish[{_OTHER_KEY}]",),
    ),
    Mutant(
        "a replay takes a dead letter whoever sent it",
        f"{_CORE}/ingest/reprocess.py",
        "parsed = _of_writer(parsed, settings, letter.writer)",
        "pass",
        (f"{_WRITERS}::test_a_replay_holds_a_letter_to_its_writer",),
    ),
    Mutant(
        "a queue message is of the writer that it names itself",
        "functions/ingest_queue/app.py",
        '(r.get("attributes") or {}).get("SenderId") or "",',
        '_attribute(r, "SenderId") or (r.get("attributes") or {}).get("SenderId") or "",',
        (f"{_WRITERS}::test_a_queue_message_of_a_stranger_is_a_dead_letter_with_its_bytes[{_STRANGER}]",),
    ),
    Mutant(
        "writers have their idempotency keys in common",
        f"{_CORE}/log/receipts.py",
        'return f"{kind}\\n{owner}" if owner else kind',
        "return kind",
        (f"{_WRITERS}::test_keys_of_one_writer_are_nothing_to_another",),
    ),
    Mutant(
        "a star in a caller's pattern passes a slash",
        "layers/core/python/firn/config/callers.py",
        'r"[\\w+=,.@-]*".join',
        '".*".join',
        (f"{_AUTH}::test_a_pattern_names_whom_it_says_and_nobody_else[arn:aws:iam::123456789012:user/*-yes2-no2]",),
    ),
    Mutant(
        "dead letters are written after the batch that counts them",
        _INGEST,
        """    write_dead(store, layout.batch_dead_path(meta.batch), letters)
    path = layout.staged_path(meta.batch)
    if not put_if_absent(store, path, data):
""",
        """    path = layout.staged_path(meta.batch)
    fresh = put_if_absent(store, path, data)
    write_dead(store, layout.batch_dead_path(meta.batch), letters)
    if not fresh:
""",
        ("tests/faults/test_faults.py::test_every_call[http_with_a_key-dies before-once]",),
    ),
    Mutant(
        "a queue message over a limit takes the good ones along",
        f"{_CORE}/ingest/message_batch.py",
        "        except (RequestError, EventError) as error:",
        "        except EventError as error:",
        (f"{_UNIT}/ingest/test_queue.py::test_a_message_of_too_many_events_is_one_dead_letter_beside_the_good_ones",),
    ),
    Mutant(
        "messages that are left for another delivery are taken for staged",
        _QUEUE,
        "left = [*range(most, len(messages))]",
        "left: list[int] = []",
        (f"{_UNIT}/ingest/test_queue.py::test_messages_that_are_too_many_together_come_again_and_are_staged_once",),
    ),
    Mutant(
        "one key takes two bodies",
        f"{_CORE}/log/receipts.py",
        "if first.body != mine.body:",
        "if not first.body:",
        (f"{_UNIT}/ingest/test_accept.py::test_the_same_key_with_another_body_is_a_409",),
    ),
    Mutant(
        "a retry with a key is staged again",
        _INGEST,
        "if not used:",
        "if True:",
        (f"{_UNIT}/ingest/test_accept.py::test_the_same_key_and_body_are_staged_once",
         f"{_UNIT}/ingest/test_accept.py::test_a_crash_between_receipt_and_batch_is_healed_by_the_retry"),
    ),
    Mutant(
        "a retry of what was taken is refused by limits that came later",
        _INGEST,
        "before = accepted_before(store, stream, body, key, key_header, table, writer) if key else None",
        "before = None",
        (f"{_UNIT}/ingest/test_accept.py"
         "::test_a_retry_of_what_was_taken_is_answered_so_whatever_the_limits_are_by_now[webhook-id]",),
    ),
    Mutant(
        "a put whose answer was lost is taken for somebody else's",
        _STORE,
        "return there == data",
        "return False",
        (f"{_UNIT}/log/test_store.py::test_a_put_whose_answer_was_lost_is_recognised_as_ones_own",
         "tests/unit/dispatch/test_dispatch_races.py::test_an_epoch_whose_answer_was_lost_is_known_by_its_nonce"
         "[answers0]"),
    ),
    Mutant(
        "whatever object is there is taken for one's own",
        _STORE,
        "return there == data",
        "return True",
        (f"{_UNIT}/log/test_store.py::test_a_lost_answer_does_not_claim_anothers_object",
         f"{_UNIT}/log/test_epochs.py::test_a_twin_that_sealed_first_wins_and_the_loser_lists_again"),
    ),
    Mutant(
        "an object that is refused and not there is taken for somebody else's",
        _STORE,
        "if (there := get(store, path)) is not None:",
        "if (there := get(store, path)) is not None or True:",
        (f"{_UNIT}/log/test_store.py::test_what_is_refused_as_there_and_is_not_there_is_put_again",),
    ),
    Mutant(
        "an unclear put whose repeat is refused is called refused",
        _STORE,
        "raise (unclear or failure) from error",
        "raise failure from error",
        (f"{_UNIT}/log/test_store.py"
         "::test_one_unclear_answer_leaves_the_outcome_unknown_even_if_later_tries_are_refused",),
    ),
    Mutant(
        "a container that is not there is an empty log",
        _STORE,
        'return isinstance(error, FileNotFoundError) and not _NO_BUCKET.search(str(error))',
        'return isinstance(error, FileNotFoundError)',
        (f"{_UNIT}/log/test_cloud_stores.py::test_a_container_that_is_not_there_is_no_missing_object",),
    ),
    Mutant(
        "Azure is asked to begin a listing at an offset",
        _STORE,
        "all_of_it = isinstance(store, obstore.store.AzureStore)",
        "all_of_it = False",
        (f"{_UNIT}/log/test_cloud_stores.py"
         "::test_what_lies_behind_an_offset_is_listed_where_the_storage_knows_none",),
    ),
    Mutant(
        "what lies before a listing's offset is listed too",
        _STORE,
        'yield from (meta for meta in chunk if after is None or str(meta["path"]) > after)',
        "yield from chunk",
        (f"{_UNIT}/log/test_cloud_stores.py"
         "::test_what_lies_behind_an_offset_is_listed_where_the_storage_knows_none",),
    ),
    Mutant(
        "a version has its quotes where the storage gives them",
        _STORE,
        """.strip('"')""",
        "",
        (f"{_UNIT}/log/test_cloud_stores.py::test_a_version_is_the_same_in_a_listing_and_at_a_read",),
    ),
    Mutant(
        "what an epoch holds is sealed again",
        _EPOCHS,
        "batch is not None and batch not in covered:",
        "batch is not None:",
        (f"{_UNIT}/log/test_epochs.py::test_what_an_epoch_holds_is_no_candidate_again",),
    ),
    Mutant(
        "only the newest epoch is asked what it holds",
        _EPOCHS,
        "if floor is not None and epoch.time < floor - 3 * SKEW:",
        "if floor is not None:",
        (f"{_UNIT}/log/test_epochs.py::test_a_dispatcher_whose_clock_is_an_hour_behind_covers_the_same",),
    ),
    Mutant(
        "the next epoch's number is how many there are",
        _EPOCHS,
        "next_n=1 + max([above, *sealed[-1:]])",
        "next_n=1 + len(sealed)",
        ("tests/unit/dispatch/test_dispatch_races.py::test_a_stream_idle_past_its_retention_counts_on_from_its_cut",),
    ),
    Mutant(
        "epochs are numbered without zeros before",
        f"{_CORE}/log/layout.py",
        'return f"{epoch_prefix(stream)}/{n:020d}.json"',
        'return f"{epoch_prefix(stream)}/{n}.json"',
        (f"{_UNIT}/log/test_layout.py::test_numbers_sort_as_text",),
    ),
    Mutant(
        "the listing begins where the newest epoch was sealed",
        _EPOCHS,
        "OVERLAP: Final = timedelta(minutes=15) + SKEW",
        "OVERLAP: Final = timedelta(0)",
        (f"{_UNIT}/log/test_epochs.py::test_a_batch_from_a_clock_an_hour_behind_is_found",),
    ),
    Mutant(
        "what an epoch had no room for is not looked for",
        _EPOCHS,
        "min(newest.time, _reaches(newest), now) - overlap",
        "min(newest.time, now) - overlap",
        ("tests/unit/dispatch/test_dispatcher.py::test_all_that_waited_for_days_is_sealed_however_many_epochs_it_takes[False]",),
    ),
    Mutant(
        "a message that another delivery has claimed is staged all the same",
        _QUEUE,
        "elif receipt.batch != batch:",
        "elif not receipt.batch:",
        (f"{_UNIT}/ingest/test_queue.py::test_twin_deliveries_stage_each_message_once[pause0-before]",),
    ),
    Mutant(
        "a delivery is taken for dead and nothing keeps it from staging",
        _QUEUE,
        "if put_if_absent(store, path, _void(config, batch)):",
        "if path:",
        (f"{_UNIT}/ingest/test_queue.py"
         "::test_a_delivery_that_was_taken_for_dead_stages_nothing_and_its_messages_come_again",),
    ),
    Mutant(
        "messages of a delivery that may be at work still are taken for staged",
        _QUEUE,
        "return _Standing.UNDER_WAY\n            _log.warning",
        "return _Standing.STAGED\n            _log.warning",
        (f"{_UNIT}/ingest/test_queue.py::test_messages_of_a_delivery_that_may_still_be_at_work_come_again",),
    ),
    Mutant(
        "an epoch that is full takes one batch more",
        "layers/core/python/firn/config/epoch_limits.py",
        "if count and (size > self.bytes or events > self.events):",
        "if count and (size - more > self.bytes or events - rows > self.events):",
        ("tests/unit/config/test_epoch_limits.py::test_a_batch_larger_than_an_epoch_goes_alone",),
    ),
    Mutant(
        "a flush leaves what waits for another's sake",
        "layers/core/python/firn/dispatch/dispatcher.py",
        "None if whole else self.terms.per_writer",
        "self.terms.per_writer",
        (
            "tests/unit/dispatch/test_dispatcher.py::"
            "test_of_several_writers_one_epoch_is_sealed_at_a_time_and_a_flush_seals_all_there_is",
        ),
    ),
    Mutant(
        "a job that is up takes all that a writer floods at once",
        "layers/core/python/firn/commit/warm_job.py",
        "per_writer = limit_per_writer(stream.writers, policy.linger_seconds)",
        "per_writer = limit_per_writer((), policy.linger_seconds)",
        ("tests/model/test_lingering.py::test_a_job_that_lingers_takes_what_a_writer_floods_a_part_at_a_time",),
    ),
    Mutant(
        "the schedule seals all that a writer floods at once",
        "layers/core/python/firn/dispatch/scheduled_rounds.py",
        "per_writer = limit_per_writer(stream.writers, stream.commit.linger_seconds)",
        "per_writer = limit_per_writer((), stream.commit.linger_seconds)",
        (
            "tests/unit/functions/test_dispatch_function.py"
            "::test_a_writers_flood_is_shared_out_where_a_job_stays_for_the_rest[60s-1]",
        ),
    ),
    Mutant(
        "a writer's batch goes before an older one of its own that waits",
        "layers/core/python/firn/config/epoch_limits.py",
        "fits = waiting.isdisjoint(mine) and all(",
        "fits = all(",
        ("tests/unit/config/test_epoch_limits.py::test_behind_a_batch_of_two_writers_that_waits_both_wait",),
    ),
    Mutant(
        "what waits for its writer's sake is forgotten once newer batches are sealed",
        _EPOCHS,
        "for batch in (newest, epoch.waits) if batch)",
        "for batch in (newest,) if batch)",
        (
            "tests/unit/log/test_epochs.py::"
            "test_what_waits_for_its_writers_sake_is_found_however_far_later_epochs_reach",
        ),
    ),
    Mutant(
        "a batch larger than an epoch is never taken",
        "layers/core/python/firn/config/epoch_limits.py",
        "if count and (size > self.bytes or events > self.events):",
        "if size > self.bytes or events > self.events:",
        ("tests/unit/config/test_epoch_limits.py::test_every_batch_is_in_one_epoch_in_its_order",),
    ),
    Mutant(
        "the last word of a dead dispatcher shuts ingest for ever",
        f"{_CORE}/log/backlog_gate.py",
        "shut = state is not None and (state.over or state.wait(now) > 0) and state.fresh(now)",
        "shut = state is not None and (state.over or state.wait(now) > 0)",
        (f"{_UNIT}/log/test_backlog_gate.py::test_a_state_that_nobody_writes_any_more_shuts_nothing",),
    ),
    Mutant(
        "messages are taken from the queue while the backlog is full, and not staged",
        "functions/ingest_queue/app.py",
        "        raise refusal(shut, now)\n",
        "        return []\n",
        ("tests/unit/functions/test_ingest_queue.py"
         "::test_while_the_backlog_is_full_a_streams_messages_come_again_and_the_others_are_taken",),
    ),
    Mutant(
        "a retry of what is staged is told that nothing was taken",
        f"{_CORE}/ingest/request.py",
        "        if before is None:\n",
        "        if before is not None:\n",
        ("tests/unit/functions/test_ingest_http.py"
         "::test_what_was_acknowledged_before_is_acknowledged_again_while_the_backlog_is_full",),
    ),
    Mutant(
        "a quarantined epoch shuts the stream",
        f"{_CORE}/log/backlog.py",
        "if n not in cases]",
        "if n]",
        (f"{_UNIT}/log/test_backlog_gate.py::test_a_quarantined_epoch_shuts_nobody_out",),
    ),
    Mutant(
        "a commit is as fresh as the cut that came last",
        f"{_CORE}/log/freshness.py",
        "earliest = at if earliest is None else min(earliest, at)",
        "earliest = at",
        (f"{_UNIT}/log/test_freshness.py::test_a_cut_that_came_after_its_successors_committed_nothing_later",),
    ),
    Mutant(
        "dead letters are replayed without claiming them",
        f"{_CORE}/ingest/replay.py",
        "if not replay_marks.claim(self._store, claim):",
        "if not claim:",
        (f"{_UNIT}/ingest/test_replay.py::test_a_second_replay_finds_nothing_left",),
    ),
    Mutant(
        "what a stream took above its rate is forgotten",
        "layers/core/python/firn/log/byte_rate.py",
        "return max(-LUMPS * rate, debt - max(0.0, seconds) * rate + taken)",
        "return max(-LUMPS * rate, min(0.0, debt - max(0.0, seconds) * rate + taken))",
        ("tests/unit/log/test_backlog_gate.py::test_all_processes_together_come_to_the_streams_rate",),
    ),
    Mutant(
        "bytes of an epoch count for a stream's rate with each look",
        "layers/core/python/firn/log/backlog.py",
        "counted = max(sealed, default=before.counted)",
        "counted = before.counted",
        ("tests/unit/log/test_backlog_gate.py::test_all_processes_together_come_to_the_streams_rate",),
    ),
    Mutant(
        "a stream's rate is kept by all streams of a process together",
        "layers/core/python/firn/log/backlog_gate.py",
        "bucket = self._buckets[stream, writer] = ByteBucket(rate, self._clock, burst=1.0)",
        'bucket = self._buckets.setdefault(("", ""), ByteBucket(rate, self._clock, burst=1.0))',
        ("tests/unit/log/test_backlog_gate.py::test_a_process_takes_the_bytes_of_its_streams_rate_within_a_tenth",),
    ),
    Mutant(
        "what a dead job left is shown as running",
        f"{_CORE}/log/job_progress.py",
        "if found is None or found.stream != stream or run not in (None, found.run) or not is_live(found, now):",
        "if found is None or found.stream != stream or run not in (None, found.run):",
        (f"{_UNIT}/log/test_job_progress.py::test_what_does_not_run_is_not_shown[its job is dead for long]",),
    ),
    Mutant(
        "the progress of another try is shown as that of a run",
        f"{_CORE}/log/job_progress.py",
        "if found is None or found.stream != stream or run not in (None, found.run) or not is_live(found, now):",
        "if found is None or found.stream != stream or not is_live(found, now):",
        (f"{_UNIT}/log/test_job_progress.py"
         "::test_what_does_not_run_is_not_shown[it is of another run: the next try is at work]",),
    ),
    Mutant(
        "a storage in which several writers create one object is called good",
        "cli/firn_cli/storage_check.py",
        "if len(won) != 1:",
        "if not won:",
        (f"{_UNIT}/cli/test_storage_check.py"
         "::test_what_a_storage_lacks_is_found_out_and_what_does_not_hold_then_is_said[Racy]",),
    ),
    Mutant(
        "S3 is asked at the endpoint of all services though it has one of its own",
        f"{_CORE}/config/region.py",
        'environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""',
        'environment.get("AWS_ENDPOINT_URL") or environment.get("AWS_ENDPOINT_URL_S3") or ""',
        (f"{_UNIT}/lake/test_tables.py::test_storage_settings_come_from_the_environment",),
    ),
    Mutant(
        "what a stack has staged is committed to another catalog than before",
        "infra/local/firn_local/kept_catalog.py",
        "if before != now:",
        "if not before:",
        (f"{_UNIT}/local/test_kept_catalog.py::test_another_catalog_is_refused_and_the_one_of_before_is_named",),
    ),
)  # fmt: skip
