#!/bin/sh
# Downloads the kernel of a release of Debian and unpacks to DIR what a virtual machine needs of it. apt verifies it by the
# archive's signature and hashes. Does nothing if DIR is there. Ends with exit code 75 if it cannot be downloaded.
# Usage: fetch.sh SUITE DIR
set -eu
suite=$1 dir=$2
[ ! -e "$dir" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/unpacked"

# The archive of security updates always has the newest kernel, and a small index.
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
  "http://deb.debian.org/debian-security $suite-security main" > "$work/sources.list"
cat > "$work/apt.conf" << EOF
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::State::status "/dev/null";
Dir::Cache "$work";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Retries "3";
EOF
export APT_CONFIG="$work/apt.conf"
apt-get -qq update || exit 75
package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p')
(cd "$work" && apt-get -qq download "$package") || exit 75

dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb | tar --extract --directory "$work/unpacked" --wildcards --no-anchored \
  'boot/vmlinuz-*' 'lib/modules/*/modules.*' 'lib/modules/*/kernel/net' 'lib/modules/*/kernel/lib' 'lib/modules/*/kernel/crypto' \
  'lib/modules/*/kernel/arch' 'lib/modules/*/kernel/drivers/virtio' 'lib/modules/*/kernel/drivers/net/veth.ko*' \
  'lib/modules/*/kernel/drivers/net/dummy.ko*' \
  'lib/modules/*/kernel/fs/[9fno]*'
# Newer packages have all below /usr.
[ ! -e "$work/unpacked/usr" ] || mv "$work/unpacked/usr/lib" "$work/unpacked/"
depmod --basedir "$work/unpacked" "$(ls "$work/unpacked/lib/modules")"
mkdir -p "$(dirname "$dir")"
mv "$work/unpacked" "$dir.$$"
mv "$dir.$$" "$dir"
