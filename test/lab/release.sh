#!/bin/sh
# Unpacks nft and iptables-nft of a release of Debian to DIR, from the archive of Debian in apt's sources, or from that of
# DEBIAN_ARCHIVE. apt verifies them by the archive's signature and hashes. DIR/bin then has the tools. They run with the
# libraries of their release, in all namespaces of who calls them, and without root. chroot(8) would hide /dev/stdin, which
# `nft -f -` of 0.9.8 opens. Does nothing if DIR is there. Ends with exit code 75 if the packages cannot be downloaded.
# Usage: release.sh SUITE DIR
set -eu
suite=$1 dir=$2
[ ! -e "$dir" ] || exit 0
archive=${DEBIAN_ARCHIVE:-$(apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' | grep -m 1 '/debian/*$')} || {
  echo "apt's sources do not name an archive of Debian; set DEBIAN_ARCHIVE" >&2
  exit 75
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial"

echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" > "$work/sources.list"
: > "$work/status"
cat > "$work/apt.conf" << EOF_APT
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
EOF_APT
export APT_CONFIG="$work/apt.conf"
apt-get -qq update || exit 75
apt-get -qq --download-only install nftables iptables > /dev/null || exit 75

for package in "$work"/archives/*.deb; do dpkg-deb --extract "$package" "$work/all"; done
release=$work/release
mkdir "$release" "$release/lib" "$release/bin" "$release/loader"
mv "$work/all/usr/sbin" "$release/"
# Older releases have libraries in /lib too.
for libraries in "$work"/all/lib/*-linux-gnu* "$work"/all/usr/lib/*-linux-gnu*; do
  [ ! -d "$libraries" ] || cp -a "$libraries/." "$release/lib/"
done
loader=$(cd "$release/lib" && echo ld-linux-*.so.*)
cat > "$release/bin/nft" << 'EOF_TOOL'
#!/bin/bash
tool=${0##*/} release=${0%/*}/..
# nft before 1.0 opens /dev/stdin, which fails if that is a socket, as Node.js makes it.
[[ ! -S /dev/stdin ]] || exec < <(/bin/cat)
XTABLES_LIBDIR=$release/lib/xtables exec "$release/loader/$tool" --library-path "$release/lib" "$release/sbin/$tool" "$@"
EOF_TOOL
chmod 755 "$release/bin/nft" "$release"
for tool in nft iptables-nft iptables-nft-restore iptables-nft-save ip6tables-nft ip6tables-nft-restore ip6tables-nft-save; do
  [ "$tool" = nft ] || ln -s nft "$release/bin/$tool"
  # The kernel takes the name of this link for the name of the process, and tells it to those who listen for changes.
  ln -s "../lib/$loader" "$release/loader/$tool"
done
mkdir -p "$(dirname "$dir")"
mv "$release" "$dir.$$"
mv "$dir.$$" "$dir"
