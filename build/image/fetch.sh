#!/bin/sh
# Downloads Debian packages, by default those of the image, and all their dependencies to DIR.
# Usage: fetch.sh ARCH DIR [PACKAGE...]
set -eu
arch=$1 dir=$2
shift 2
[ $# -gt 0 ] || set -- iptables libstdc++6
mkdir -p "$dir/partial" "$dir/lists/partial"

# Hides the installed packages from apt, so that it downloads every dependency.
apt() {
  apt-get -qq -o Dir::State::status=/dev/null -o APT::Architecture="$arch" -o APT::Architectures::="$arch" \
    -o Dir::Cache::archives="$dir" -o Dir::State::lists="$dir/lists" "$@"
}
fetch() {
  apt install --yes --no-install-recommends --download-only "$@"
}
# A base image that has all packages needs no network.
fetch "$@" >/dev/null 2>&1 || { apt update && fetch "$@"; }
