#!/bin/sh
# Downloads the Debian packages of the image and all their dependencies to DIR.
# Usage: fetch.sh ARCH DIR
set -eu
arch=$1 dir=$2
mkdir -p "$dir/partial" "$dir/lists/partial"

# Hides the installed packages from apt, so that it downloads every dependency.
apt() {
  apt-get -qq -o Dir::State::status=/dev/null -o APT::Architecture="$arch" -o APT::Architectures::="$arch" \
    -o Dir::Cache::archives="$dir" -o Dir::State::lists="$dir/lists" "$@"
}
fetch() {
  apt install --yes --no-install-recommends --download-only iptables nftables libstdc++6
}
# A base image that has all packages needs no network.
fetch >/dev/null 2>&1 || { apt update && fetch; }
