"""A change as Debezium writes it. Loads nothing, so that drivers of a load in Firn's own environment may use it."""

START = 1_767_225_600_000_000  # 2026-01-01, microseconds
MONTH = 30 * 86_400_000_000
FIRST_LSN = 23_800_000_000


def change_line(
    n: int, table: str, key: int, op: str, cents: int, branch: int, note: str, commit: int, lsn: int
) -> bytes:
    """Event n as Debezium writes it: no inline schema, decimals as text, of what a delete removes only the key."""
    at = START + MONTH + n * 500
    if op == "d":
        before = f'{{"id":{key},"name":null,"balance":null,"branch":null,"updated_at":null,"note":null}}'
        after = "null"
    else:
        before = "null"
        after = (
            f'{{"id":{key},"name":"account-{key:09d}","balance":"{cents // 100}.{cents % 100:02d}",'
            f'"branch":{branch},"updated_at":{at},"note":"{note}"}}'
        )
    return (
        f'{{"before":{before},"after":{after},"source":{{"version":"3.6.0.Final","connector":"postgresql",'
        f'"name":"bank","ts_ms":{at // 1000},"snapshot":"false","db":"bank",'
        f'"sequence":"[\\"{commit}\\",\\"{lsn}\\"]","ts_us":{at},"ts_ns":{at}000,"schema":"public",'
        f'"table":"{table}","txId":{500_000 + n // 5},"lsn":{lsn},"xmin":null}},"transaction":null,'
        f'"op":"{op}","ts_ms":{at // 1000 + 120},"ts_us":{at + 120_000},"ts_ns":{at + 120_000}000}}\n'
    ).encode()
