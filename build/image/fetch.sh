#!/bin/sh
# Downloads the Debian packages that packages.lock names for ARCH to DIR, and checks their sums. They are taken from DEBIAN_ARCHIVE,
# by default the archive of this machine's apt. When that has newer ones, a snapshot of the day of packages.lock still has them.
# Usage: fetch.sh ARCH DIR
set -eu
arch=$1 dir=$2
cd "$(dirname "$0")"
day=$(sed -n 's/^# day: //p' packages.lock)
archive=${DEBIAN_ARCHIVE:-$(./archive.sh)}
mkdir -p "$dir"
grep -v '^#' packages.lock | while read -r sum path; do
  file=$dir/${path##*/}
  case $file in *_"$arch".deb | *_all.deb) ;; *) continue ;; esac
  is_right() { [ -e "$1" ] && echo "$sum  $1" | sha256sum --check --status; }
  ! is_right "$file" || continue
  if ! curl --fail --silent --location --retry 3 --output "$file.new" "$archive/$path" || ! is_right "$file.new"; then
    echo "fetch: $archive has no $path with the sum in packages.lock; set DEBIAN_ARCHIVE to a snapshot of $day, or run make debian-lock" >&2
    exit 1
  fi
  mv "$file.new" "$file"
done
