#!/bin/sh
# Writes packages.lock: what of Debian's release SUITE is in the image, as its archive has it now. apt verifies that by the
# signature of the archive. `make debian-lock` runs it.
# Usage: lock.sh SUITE
set -eu
suite=$1
archive=${DEBIAN_ARCHIVE:-$("$(dirname "$0")/archive.sh")}
lock=$(dirname "$0")/packages.lock
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial"
: > "$work/status"
signed='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
echo "deb $signed $archive $suite main" > "$work/sources.list"
echo "deb $signed $archive-security $suite-security main" >> "$work/sources.list"
{
  echo "# What of Debian $suite is in the image: sha256 and path in the archive. Written by lock.sh; see \`make debian-lock\`."
  echo "# day: $(date --utc +%Y-%m-%d)"
  for arch in amd64 arm64; do
    apt() {
      apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" \
        -o Dir::State::status="$work/status" -o Dir::Cache="$work" -o APT::Architecture=$arch -o APT::Architectures=$arch \
        -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o Acquire::Languages=none "$@"
    }
    apt update
    # base-files has the name of the release. What it needs itself is not needed for that.
    packages=$(apt --print-uris install iptables libstdc++6 | sed "s/^'[^']*' \([^_]*\)_.*/\1/")
    for package in $packages base-files; do
      apt --print-uris download "$package"
    done | sed -n "s|^'$archive/\([^']*\)' .* SHA256:\([0-9a-f]*\)$|\2  \1|p" | sed 's/%2b/+/g'
  done | sort --unique --key=2
} > "$lock.new"
mv "$lock.new" "$lock"
