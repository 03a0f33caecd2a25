#!/bin/sh
# Adds Debian's layer to the layers of stage.ts in DIR, strips Node.js, completes the bill of materials, and gives all files modes
# and times that do not depend on the build. No program of the image runs here, so it can be for another architecture.
# Usage: layers.sh ARCH DIR PACKAGES SECONDS, where SECONDS since the epoch are the time of the agent's files, and PACKAGES is where
# fetch.sh has put Debian's.
set -eu
export LC_ALL=C
umask 022
arch=$1 packages=$3 time=$4
own=$(cd "$(dirname "$0")" && pwd)
cd "$2"
root=$PWD/layers/debian
status=$root/var/lib/dpkg/status.d
sbom=$PWD/layers/agent/usr/share/sbom/ip-masq-agent.cdx.json
mkdir -p unpacked "$status"

# The links are those of a merged /usr.
for top in bin lib lib64 sbin; do
  mkdir -p "unpacked/usr/$top"
  ln -s "usr/$top" "unpacked/$top"
done
for deb in "$packages"/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar --extract --no-same-owner --keep-directory-symlink --directory unpacked
done

# Without its table of symbols, a seventh of it.
case $arch in amd64) cpu=x86_64 ;; arm64) cpu=aarch64 ;; esac
strip='strip'
[ "$cpu" = "$(uname -m)" ] || strip=$cpu-linux-gnu-strip
"$strip" --strip-all layers/node/usr/bin/node

# Includes the commands that a dataplane runs, similar commands for people, the extensions of iptables that their rules use, the
# libraries that all of these need, and names of protocols.
(
  cd unpacked
  extensions=$(sed '/^#/d' "$own/extensions.txt" | while read -r name; do echo usr/lib/*/xtables/lib"$name".so; done)
  # shellcheck disable=SC2086
  set -- usr/sbin/xtables-*-multi $extensions
  # shellcheck disable=SC2086
  cp --archive --parents bin lib lib64 sbin etc/protocols etc/services "$@" \
    usr/sbin/ip*tables-nft* usr/sbin/ip*tables-legacy* usr/lib/os-release "$root"
  set -- "$@" ../layers/node/usr/bin/node ../layers/node/usr/lib/ip-masq-agent/koffi.node
  while [ $# -gt 0 ]; do
    file=$1
    shift
    for name in $(readelf --dynamic "$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
      for library in usr/lib/*-linux-gnu*/"$name" usr/lib*/"$name"; do
        if [ ! -e "$library" ] || [ -e "$root/$library" ]; then continue; fi
        cp --archive --parents "$library" "$root"
        target=$(readlink "$library") && cp --archive --parents "${library%/*}/$target" "$root"
        set -- "$@" "$library"
      done
    done
  done
  # Packages of one source share the directory of their licence by a link. The licences that these name are in base-files.
  for doc in usr/share/doc/*; do
    if [ -L "$doc" ]; then cp --archive --parents "$doc" "$root"; else cp --parents "$doc/copyright" "$root"; fi
  done
  grep -oh '/usr/share/common-licenses/[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]' usr/share/doc/*/copyright | sort -u | while read -r text; do
    [ ! -e ".$text" ] || cp --parents "${text#/}" "$root"
  done
)
# Debian creates these links when it configures a package.
for suffix in '' -restore -save; do
  ln -s "iptables-nft$suffix" "$root/usr/sbin/iptables$suffix"
  ln -s "ip6tables-nft$suffix" "$root/usr/sbin/ip6tables$suffix"
done
ln -s ../usr/lib/os-release "$root/etc/os-release"
printf '%s\n' root:x:0:0:root:/:/usr/sbin/nologin nobody:x:65534:65534:nobody:/:/usr/sbin/nologin > "$root/etc/passwd"
printf '%s\n' root:x:0: nogroup:x:65534: > "$root/etc/group"
printf '%s\n' 'hosts: files dns' 'protocols: files' 'services: files' > "$root/etc/nsswitch.conf"
# /run is for the node's lock. There is no /etc/config: if no volume is mounted there, the agent must report it.
mkdir "$root/run"

# Scanners and people look for the status of dpkg and the bill of materials.
# shellcheck source=/dev/null
. "$root/usr/lib/os-release"
for deb in "$packages"/*.deb; do
  name=$(dpkg-deb --field "$deb" Package)
  version=$(dpkg-deb --field "$deb" Version)
  { dpkg-deb --field "$deb" && echo 'Status: install ok installed'; } > "$status/$name"
  architecture=$(dpkg-deb --field "$deb" Architecture)
  purl="pkg:deb/debian/$name@$version?arch=$architecture&distro=debian-${VERSION_ID:-unknown}"
  purl=$(echo "$purl" | sed 's/+/%2B/g')
  sum=$(sha256sum < "$deb" | cut -c 1-64)
  printf '    "%s",\n' "$purl" >> references
  printf '    {"type": "library", "name": "%s", "version": "%s", "bom-ref": "%s", "purl": "%s", "supplier": {"name": "Debian"}, "hashes": [{"alg": "SHA-256", "content": "%s"}], "licenses": [{"license": {"name": "see /usr/share/doc/%s/copyright"}}]},\n' \
    "$name" "$version" "$purl" "$purl" "$sum" "$name" >> components
done
sed -i -e '/@DEBIAN_COMPONENTS@/{r components' -e 'd}' -e '/@DEBIAN_REFERENCES@/{r references' -e 'd}' "$sbom"

# The same packages give the same layer in every release, so that a node does not pull it again.
chmod -R a=rX,u+w layers
find layers/debian layers/node -exec touch --no-dereference --date=@0 {} +
find layers/agent -exec touch --no-dereference --date="@$time" {} +
rm -rf unpacked components references
