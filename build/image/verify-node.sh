#!/bin/sh
# Checks that the programs of Node.js in programs.sha256 are those that the releasers of Node.js have signed: the npm packages that
# carry them are not theirs. The workflow of a release runs it.
# Usage: verify-node.sh VERSION, such as 24.21.0
set -eu
version=$1
dist=${NODE_DIST:-https://nodejs.org/dist}/v$version
# The keys of the releasers, from their repository nodejs/release-keys at a commit.
keys=${NODE_KEYS:-https://raw.githubusercontent.com/nodejs/release-keys/b28073028e6d6855cfb53bf7fa0137599c01f967/gpg/pubring.kbx}
sums=$(cd "$(dirname "$0")" && pwd)/programs.sha256
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
get() { curl --fail --silent --show-error --location --retry 3 --output "$1" "$2"; }
get keys.kbx "$keys"
get signed.asc "$dist/SHASUMS256.txt.asc"
gpgv --keyring ./keys.kbx --output sums.txt signed.asc
for cpu in x64 arm64; do
  name=node-v$version-linux-$cpu
  get "$name.tar.xz" "$dist/$name.tar.xz"
  grep " $name.tar.xz\$" sums.txt | sha256sum --check --strict
  tar --extract --file "$name.tar.xz" "$name/bin/node"
  mkdir -p "node_modules/node-linux-$cpu/bin"
  mv "$name/bin/node" "node_modules/node-linux-$cpu/bin/node"
done
grep '/bin/node$' "$sums" | sha256sum --check --strict
