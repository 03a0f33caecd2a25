#!/bin/sh
# Copies from Debian, where this runs, what the image needs of iptables: its programs, its extensions, the libraries that these load, and
# names of protocols; with the status and the licence of each package, which scanners and people look for. What BASE has is left out.
# Usage: iptables.sh BASE OUT
set -eu
base=$1 out=$2
umask 022

# With each directory that it is in, which a layer describes too.
add() {
  for path in "$@"; do
    if [ ! -e "$base$path" ] && [ ! -e "$out$path" ]; then (cd / && cp --archive --parents ".$path" "$out"); fi
  done
}

mkdir -p "$out/var/lib/dpkg/status.d" "$out/usr/sbin"
set -- /usr/sbin/xtables-nft-multi /usr/sbin/xtables-legacy-multi /usr/lib/*/xtables/libxt_*.so /usr/lib/*/xtables/libip*t_*.so
add "$@" /usr/sbin/ip*tables-nft* /usr/sbin/ip*tables-legacy* /etc/protocols /etc/services
# Debian's own links lead through /etc/alternatives.
for command in iptables ip6tables; do
  for suffix in '' -restore -save; do ln -s "$command-nft$suffix" "$out/usr/sbin/$command$suffix"; done
done
for library in $(ldd "$@" | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' | sort -u); do
  # By the name that programs look for, which is a link, and by that of the file.
  directory=$(dirname "$(realpath "$library")")
  add "$directory/$(basename "$library")" "$(realpath "$library")"
done

find "$out/etc" "$out/usr" -type f | sed "s|^$out||" | xargs dpkg-query --search | sed 's/[:,].*//' | sort -u | while read -r package; do
  dpkg-query --status "$package" > "$out/var/lib/dpkg/status.d/$package"
  add "/usr/share/doc/$package/copyright"
  # The texts that it names, and some of them are links.
  grep -oh '/usr/share/common-licenses/[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]' "/usr/share/doc/$package/copyright" | while read -r text; do
    [ ! -e "$text" ] || add "$text" "$(realpath "$text")"
  done
done
# The same packages give the same layer in each build.
chmod -R a=rX,u+w "$out"
find "$out" -exec touch --no-dereference --date=@0 {} +
