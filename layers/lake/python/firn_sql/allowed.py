"""What the SQL of a pipeline may use: functions, operators and types by DuckDB's own names, and why not the others."""

from difflib import get_close_matches
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NUMBERS: Final = _words(
    "+ - * / // % ** ^ & | ~ << >> @ abs add subtract multiply divide mod pow power sqrt cbrt exp ln log log2 "
    "log10 sign round round_even trunc ceil ceiling floor even greatest least gcd lcm bit_count xor fdiv fmod "
    "sin cos tan asin acos atan atan2 cot pi degrees radians isnan isinf isfinite factorial"
)
TEXTS: Final = _words(
    "|| lower upper lcase ucase trim ltrim rtrim length len strlen char_length character_length octet_length "
    "bit_length substr substring left right reverse replace translate concat concat_ws contains starts_with "
    "ends_with prefix suffix ^@ instr strpos position ascii chr ord unicode split split_part str_split "
    "string_split string_to_array strip_accents nfc_normalize overlay like_escape not_like_escape ilike_escape "
    "not_ilike_escape ~~ !~~ ~~* !~~* ~~~ base64 to_base64 from_base64 hex to_hex from_hex unhex encode decode "
    "url_encode url_decode md5 sha1 sha256 regexp_matches regexp_full_match regexp_extract regexp_extract_all "
    "regexp_replace regexp_escape regexp_split_to_array str_split_regex string_split_regex"
)
TIMES: Final = _words(
    "date_part datepart date_trunc datetrunc date_diff datediff date_sub datesub date_add year month day hour "
    "minute second quarter week weekofyear weekday dayofweek dayofmonth dayofyear isodow isoyear yearweek decade "
    "century millennium millisecond microsecond nanosecond epoch epoch_ms epoch_us epoch_ns dayname monthname "
    "last_day days_in_month make_date make_time make_timestamp make_timestamp_ms make_timestamptz to_timestamp "
    "strftime strptime try_strptime time_bucket timezone julian to_years to_quarters to_months to_weeks to_days "
    "to_hours to_minutes to_seconds to_milliseconds to_microseconds normalized_interval"
)
JSONS: Final = _words(
    "->> json json_extract json_extract_string json_extract_path json_extract_path_text json_value json_exists "
    "json_type json_valid json_array_length json_keys json_object json_array json_quote to_json "
    "row_to_json array_to_json json_merge_patch json_transform json_transform_strict from_json from_json_strict "
    "json_structure json_normalize json_strip_nulls"
)
NESTED: Final = _words(
    "unnest list_value list_pack list_extract list_element array_extract element_at list_slice array_slice "
    "list_concat list_cat array_concat array_cat list_append list_prepend array_append array_prepend "
    "array_push_back array_push_front list_contains list_has array_contains array_has list_has_any list_has_all "
    "array_has_any array_has_all && @> <@ list_position list_indexof array_position array_indexof list_distinct "
    "array_distinct list_unique array_unique list_sort array_sort list_reverse_sort array_reverse_sort "
    "list_reverse array_reverse list_intersect array_intersect list_filter array_filter filter list_transform "
    "array_transform list_apply array_apply apply list_reduce list_zip array_zip flatten array_length "
    "cardinality array_to_string array_to_string_comma_default list_sum list_min list_max list_avg list_count "
    "list_first list_last list_any_value list_bool_and list_bool_or list_string_agg list_product struct_pack row "
    "struct_extract struct_extract_at struct_insert struct_update struct_concat struct_keys struct_values "
    "struct_contains map map_from_entries map_extract map_extract_value map_keys map_values map_entries "
    "map_contains"
)
OTHERS: Final = _words("coalesce nullif if ifnull __between switch typeof constant_or_null != = < > <= >= <=>")
FUNCTIONS: Final = NUMBERS | TEXTS | TIMES | JSONS | NESTED | OTHERS | {"IS DISTINCT FROM", "IS NOT DISTINCT FROM"}

NOW: Final = _words("now current_timestamp get_current_timestamp transaction_timestamp")
# Read as columns, and as these values where there is no such column.
VALUES: Final = _words(
    "current_date current_time localtime localtimestamp current_user session_user current_role current_catalog "
    "current_schema"
)

OPERATORS: Final = _words(
    "OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL COMPARE_IN COMPARE_NOT_IN OPERATOR_COALESCE "
    "OPERATOR_NULLIF ARRAY_EXTRACT ARRAY_SLICE ARRAY_CONSTRUCTOR STRUCT_EXTRACT OPERATOR_TRY ARROW"
)
TYPES: Final = _words(
    "BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT DOUBLE "
    "DECIMAL VARCHAR BLOB DATE TIME TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS INTERVAL UUID JSON LIST "
    "ARRAY STRUCT MAP"
) | {"TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE", "TIMESTAMPTZ_NS"}

_LARGE: Final = _words(
    "repeat lpad rpad range generate_series list_resize array_resize bar format printf to_base bitstring "
    "generate_subscripts array_value"
)
_VOLATILE: Final = _words(
    "random setseed uuid uuidv4 uuidv7 gen_random_uuid nextval currval setval error stats vector_type sleep_ms "
    "pg_sleep txid_current"
)
_CLOCK: Final = _words(
    "today current_date current_time localtime localtimestamp get_current_time current_localtime "
    "current_localtimestamp ago age"
)
_SYSTEM: Final = _words(
    "getenv current_setting getvariable current_database current_schemas current_query version in_search_path "
    "write_log current_connection_id current_query_id current_transaction_id user current_user session_user "
    "current_role current_catalog current_schema"
)
_FILES: Final = ("read_", "parquet_", "sniff_", "scan_", "iceberg_", "delta_")
AGGREGATES: Final = _words(
    "sum count count_star avg mean min max any_value first last arbitrary list array_agg string_agg group_concat "
    "listagg median mode quantile quantile_cont quantile_disc stddev stddev_samp stddev_pop variance var_samp "
    "var_pop bool_and bool_or bit_and bit_or bit_xor product histogram arg_min arg_max max_by min_by "
    "approx_count_distinct json_group_array json_group_object row_number rank dense_rank lag lead ntile "
    "first_value last_value nth_value"
)
_UNSTABLE: Final = _words(
    "hash levenshtein editdist3 damerau_levenshtein jaccard jaro_similarity jaro_winkler_similarity"
)


def refusal(function: str) -> tuple[str, str]:
    """Why a function is not allowed, and what to write instead."""
    if function in AGGREGATES:
        shown = "count(*)" if function == "count_star" else function
        return (
            f"{shown} looks at several rows, and a pipeline sees each event alone",
            "write it in the query that reads the table, or list_sum and its like for a list of one row",
        )
    if function in _VOLATILE:
        return (
            f"{function} gives another value each time, so the same events would not give the same table",
            "take the value from the event, or md5(…) of its columns",
        )
    if function in _CLOCK:
        return (
            f"{function} reads the clock in a way of its own",
            "write now(), which is when the event was accepted, such as CAST(now() AS DATE)",
        )
    if function in _LARGE:
        return f"{function} can make a huge value out of a small one", "write the value, or take it from the event"
    if function in _SYSTEM or function.startswith(("pg_", "duckdb_", "has_", "inet_")):
        return f"{function} tells of the machine or session that runs it", "write the value itself"
    if function in ("glob", "query", "query_table") or function.startswith(_FILES):
        return f"{function} reads files or other tables", "read the event's columns; a pipeline has one source table"
    if function in _UNSTABLE:
        return f"{function} is not for pipelines: its cost or its result can't be relied on", "write md5(…) or ="
    close = get_close_matches(function, FUNCTIONS, 1, 0.7)
    return (
        f"{function} is not one of the functions that pipelines have",
        f"write {close[0]}" if close else "write one that docs/pipelines.md lists",
    )


def refusal_in_view(function: str) -> tuple[str, str]:
    """The same of a function in a view."""
    if function in NOW:
        return (
            f"{function} is another time at each refresh, and stands outside of a condition",
            "write it in WHERE, such as created > now() - INTERVAL '7 days', or in the query that reads the view",
        )
    if function in _CLOCK:
        return f"{function} reads the clock in a way of its own", "write now() in WHERE, or CAST(now() AS DATE)"
    if function in _VOLATILE:
        return f"{function} gives another value each time", "take the value from the rows, or md5(…) of their columns"
    if function in ("glob", "query", "query_table") or function.startswith(_FILES):
        return f"{function} reads what is no table of Firn", "write the table as namespace.table"
    reason, instead = refusal(function)
    return reason.replace("pipelines", "views"), instead.replace("the event", "the rows")
