#!/bin/sh
# Downloads the Debian packages that packages.lock names for ARCH to DIR, and checks their sums. DEBIAN_ARCHIVE is tried first; the
# snapshot of packages.lock has them also when there are newer ones.
# Usage: fetch.sh ARCH DIR
set -eu
arch=$1 dir=$2
cd "$(dirname "$0")"
snapshot=$(sed -n 's/^# snapshot: //p' packages.lock)
mkdir -p "$dir"
grep -v '^#' packages.lock | while read -r sum path; do
  file=$dir/${path##*/}
  case $file in *_"$arch".deb | *_all.deb) ;; *) continue ;; esac
  is_right() { [ -e "$1" ] && echo "$sum  $1" | sha256sum --check --status; }
  ! is_right "$file" || continue
  for archive in "${DEBIAN_ARCHIVE:-http://deb.debian.org/debian}" "$snapshot"; do
    curl --fail --silent --location --retry 3 --output "$file.new" "$archive/$path" || continue
    is_right "$file.new" || continue
    mv "$file.new" "$file"
    continue 2
  done
  echo "fetch: cannot download $path with the sum in packages.lock; set DEBIAN_ARCHIVE" >&2
  exit 1
done
