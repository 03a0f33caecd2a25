#!/bin/sh
# Unpacks nft of other Debian releases below bin/releases, without installing it: the tests of version skew run them beside
# the agent. Each runs by chroot in a directory of its own, in the network namespace of whoever calls it. It needs root and a
# Debian mirror in the machine's own apt sources. What is there already is not fetched again.
# It exits with 3 if the packages cannot be fetched.
set -eu
cd "$(dirname "$0")/.."
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | sed 's/#.*//' |
  grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ')
[ -n "$mirror" ] || { echo 'other-releases: no Debian mirror in /etc/apt' >&2; exit 3; }

# The packages with nft and all that it needs, as far as it is in packages.
packages_of() {
  apt-cache "$@" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
    --no-enhances nftables 2>/dev/null | grep -E '^[a-z0-9]' | sort -u
}

unpack() {
  release=$1
  dir=$PWD/bin/releases/$release
  new=$dir.new
  rm -rf "$new"
  mkdir -p "$new/lists/partial" "$new/debs/partial" "$new/root/usr"
  for link in bin sbin lib lib64; do
    mkdir "$new/root/usr/$link"
    ln -s "usr/$link" "$new/root/$link"
  done
  mkdir "$new/root/tmp" "$new/root/run"
  echo "deb [trusted=yes] $mirror $release main" >"$new/sources.list"
  set -- -o "Dir::Etc::sourcelist=$new/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$new/lists" \
    -o "Dir::Cache::archives=$new/debs" -o Dir::State::status=/dev/null
  apt-get -qq "$@" update || return 3
  packages=$(packages_of "$@")
  for package in $packages; do
    (cd "$new/debs" && apt-get -qq "$@" download "$package" >/dev/null 2>&1) || true
  done
  for deb in "$new"/debs/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$new/root" 2>/dev/null || true
  done
  [ -x "$new/root/usr/sbin/nft" ] || return 3
  rm -rf "$new/debs" "$new/lists"
  printf '#!/bin/sh\nexec chroot %s /usr/sbin/nft "$@"\n' "$dir/root" >"$new/nft"
  chmod +x "$new/nft"
  rm -rf "$dir"
  mv "$new" "$dir"
}

for release in bullseye bookworm trixie sid; do
  [ -x "bin/releases/$release/nft" ] || unpack "$release" || { echo "other-releases: cannot fetch nft of $release" >&2; exit 3; }
done
