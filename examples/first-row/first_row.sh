#!/usr/bin/env bash
# From an empty folder to the first row of your own, fresh, in a terminal and in a browser, and then committed: the commands
# that a newcomer types, and the seconds that each takes. Run it in an empty Python environment (its python and firn first
# on the PATH). docs/how-to/install.md shows the same commands.
#
#   first_row.sh [REQUIREMENT]
#
# REQUIREMENT is what pip installs: 'firn-cdc[all]', or a wheel with its extras. Without the extra `spark` nothing is
# committed, and the script ends with the fresh row. Exit code 1: the row was not there within ROW_SECONDS (60) of the first
# command, or not committed within COMMIT_SECONDS (180). Downloads count, unless pip is told of a folder (PIP_FIND_LINKS,
# PIP_NO_INDEX). PORT: where `firn up` listens (8181). LOOK: a program that is given the console's address and the row's text
# in place of you, and fails unless it sees it. FLUSH=1 commits at once instead of by the schedule; ROW_ONLY=1 ends with
# the fresh row.
set -euo pipefail

requirement=${1:-firn-cdc[all]}
port=${PORT:-8181}
folder=$(mktemp -d)
up=
began=$EPOCHREALTIME

since() { awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $1 }"; }

finish() {
  if [ -n "$up" ]; then
    kill -INT "$up" 2>/dev/null || true
    wait "$up" || true
  fi
  rm -rf "$folder"
}
trap finish EXIT

run() {
  echo "\$ $*"
  local start=$EPOCHREALTIME
  "$@"
  echo "  ($(since "$start") s)"
}

expect_within() {
  local seconds
  seconds=$(since "$began")
  if awk "BEGIN { exit !($seconds > $2) }"; then
    echo "first_row: $1 took $seconds s, more than $2" >&2
    exit 1
  fi
  echo "$1 after $seconds s"
}

answers() {
  curl -sf -o /dev/null "http://127.0.0.1:$port/v1/health"
}

cd "$folder"
run python -m pip install --quiet "$requirement"

echo "\$ firn up --port $port &"
firn up --port "$port" >up.log 2>&1 &
up=$!
until answers; do
  kill -0 "$up" 2>/dev/null || { cat up.log >&2; exit 1; }
  sleep 0.1
done

run curl -sSf "http://127.0.0.1:$port/v1/streams/web/tables/users" \
  -H 'Content-Type: application/json' -d '[{"id": 1, "name": "Ada"}]'
run firn query --fresh --json 'SELECT id, name FROM web.users' | tee fresh.txt
grep -q '"Ada"' fresh.txt
address="http://127.0.0.1:$port/console/#/query?sql=SELECT+id,+name+FROM+web.users&fresh=1"
echo "in a browser: $address, and Run"
[ -z "${LOOK:-}" ] || run $LOOK "$address" Ada
expect_within "the first row of your own, in 4 commands" "${ROW_SECONDS:-60}"

if [ -n "${ROW_ONLY:-}" ] || ! python -c 'import pyspark' 2>/dev/null; then
  echo "nothing is committed here"
  exit
fi
[ -z "${FLUSH:-}" ] || run firn flush web
committed() {
  curl -s "http://127.0.0.1:$port/v1/query" -H 'Content-Type: application/json' -d '{"sql": "SELECT name FROM web.users"}'
}
until committed | grep -q '"Ada"'; do
  if awk "BEGIN { exit !($(since "$began") > ${COMMIT_SECONDS:-180}) }"; then
    cat up.log >&2
    break
  fi
  sleep 1
done
expect_within "committed" "${COMMIT_SECONDS:-180}"
