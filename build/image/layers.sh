#!/bin/sh
# Runs in the Debian stage of the image build. Adds Debian's layer to the layers of stage.ts, completes the licences and the
# bill of materials, and gives all files modes and times that do not depend on the build.
# Usage: layers.sh ARCH SECONDS, where SECONDS since the epoch are the time of the agent's files.
set -eu
export LC_ALL=C
umask 022
arch=$1 time=$2
cd "$(dirname "$0")"
root=$PWD/layers/debian
agent=$PWD/layers/agent
status=$root/var/lib/dpkg/status.d
licences=$agent/usr/share/doc/ip-masq-agent/THIRD-PARTY-LICENCES
sbom=$agent/usr/share/sbom/ip-masq-agent.cdx.json
mkdir -p unpacked "$status"

# No script of a package runs here, so the packages can be for another architecture. The links are those of a merged /usr.
sh fetch.sh "$arch" "/debs/$arch"
for top in bin lib lib64 sbin; do
  mkdir -p "unpacked/usr/$top"
  ln -s "usr/$top" "unpacked/$top"
done
for deb in "/debs/$arch"/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar --extract --keep-directory-symlink --directory unpacked
done

# Includes the commands that a dataplane runs, similar commands for people, libraries, the extensions of iptables, and names
# of protocols. Excludes scripts, ebtables and arptables, character sets and manuals.
(
  cd unpacked
  cp --archive --parents bin lib lib64 sbin etc/protocols etc/services usr/share/doc/*/copyright \
    usr/sbin/xtables-*-multi usr/sbin/ip*tables-nft* usr/sbin/ip*tables-legacy* \
    usr/lib*/*.so* usr/lib/*-linux-gnu/*.so* \
    usr/lib/*/xtables/libxt_*.so usr/lib/*/xtables/libipt_*.so usr/lib/*/xtables/libip6t_*.so "$root"
)
# Debian creates these links when it configures a package.
for suffix in '' -restore -save; do
  ln -s "iptables-nft$suffix" "$root/usr/sbin/iptables$suffix"
  ln -s "ip6tables-nft$suffix" "$root/usr/sbin/ip6tables$suffix"
done
cp /usr/lib/os-release "$root/usr/lib/os-release"
ln -s ../usr/lib/os-release "$root/etc/os-release"
printf '%s\n' root:x:0:0:root:/:/usr/sbin/nologin nobody:x:65534:65534:nobody:/:/usr/sbin/nologin > "$root/etc/passwd"
printf '%s\n' root:x:0: nogroup:x:65534: > "$root/etc/group"
printf '%s\n' 'hosts: files dns' 'protocols: files' 'services: files' > "$root/etc/nsswitch.conf"
# /run is for the node's lock. There is no /etc/config: if no volume is mounted there, the agent must report it.
mkdir "$root/run"

# Scanners and people look for the status of dpkg, the licences and the bill of materials.
licence() {
  rule=$(printf '%78s' '' | tr ' ' =)
  printf '\n%s\n%s\n%s\n\n' "$rule" "$1" "$rule"
  cat "$2"
}
# shellcheck source=/dev/null
. /usr/lib/os-release
for deb in "/debs/$arch"/*.deb; do
  name=$(dpkg-deb --field "$deb" Package)
  version=$(dpkg-deb --field "$deb" Version)
  { dpkg-deb --field "$deb" && echo 'Status: install ok installed'; } > "$status/$name"
  licence "$name $version" "unpacked/usr/share/doc/$name/copyright" >> "$licences"
  architecture=$(dpkg-deb --field "$deb" Architecture)
  purl="pkg:deb/debian/$name@$version?arch=$architecture&distro=debian-${VERSION_ID:-unknown}"
  purl=$(echo "$purl" | sed 's/+/%2B/g')
  printf '    "%s",\n' "$purl" >> references
  printf '    {"type": "library", "name": "%s", "version": "%s", "bom-ref": "%s", "purl": "%s"},\n' \
    "$name" "$version" "$purl" "$purl" >> components
done
paths=$(grep -oh '/usr/share/common-licenses/[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]' "$licences" | sort -u)
for path in $paths; do
  licence "$path" "$path" >> "$licences"
done
sed -i -e '/@DEBIAN_COMPONENTS@/{r components' -e 'd}' -e '/@DEBIAN_REFERENCES@/{r references' -e 'd}' "$sbom"

# The same packages give the same layer in every release, so that a node does not pull it again.
chmod -R a=rX,u+w layers
find layers/debian layers/node -exec touch --no-dereference --date=@0 {} +
find layers/agent -exec touch --no-dereference --date="@$time" {} +
