#!/bin/sh
# Runs `node --test` with these arguments. Where RERUN names a file, as in CI, up to three test files that have failed run once
# more: a machine that is busy for a moment must not refuse a change. What passes only then is written to that file, so that
# nobody overlooks a test that fails now and then.
set -eu
[ -n "${RERUN:-}" ] || exec node --test "$@"

failed=$(mktemp)
trap 'rm -f "$failed"' EXIT
code=0
node --test --test-reporter=spec --test-reporter-destination=stdout \
  --test-reporter=./test/lab/failed-files.ts --test-reporter-destination="$failed" "$@" || code=$?
count=$(wc -l <"$failed")
if [ "$code" -eq 0 ] || [ "$count" -eq 0 ] || [ "$count" -gt 3 ]; then exit "$code"; fi

echo "run: runs once more what has failed: $(tr '\n' ' ' <"$failed")"
# The flags stay, and these files take the place of the patterns.
for argument in "$@"; do
  shift
  case "$argument" in --*) set -- "$@" "$argument" ;; esac
done
while read -r file; do set -- "$@" "$file"; done <"$failed"
node --test "$@"
sed 's/^/run: passed only when it ran once more: /' "$failed" >>"$RERUN"
