#!/bin/sh
# Installs what is missing for `make test`: system tools from Debian's packages, npm packages from the lockfile. With the
# argument `all` it also installs what is missing for `make test-more`, with `cluster` for a Kubernetes on this machine, with
# `kernels` for virtual machines, with `image` for `make stand-ins`, and with `skew` nft and iptables of other releases, in bin/tools.
# It says what it does. If nothing is missing, it does nothing. If it is not allowed to install packages, it names what is
# missing and stops.
set -eu
cd "$(dirname "$0")/.."

# Pairs of tool:package or file:package. `unshare`, `nsenter` and `setpriv` are in util-linux, on every Debian.
wanted='iptables-nft:iptables iptables-legacy:iptables ip6tables-nft:iptables nft:nftables ip:iproute2
unshare:util-linux nsenter:util-linux setpriv:util-linux'
image='mmdebstrap:mmdebstrap arch-test:arch-test /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring buildah:buildah'
if [ "${1:-}" = cluster ] && [ -z "${KUBECONFIG:-}" ]; then
  wanted="$wanted openssl:openssl containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins
  dockerd:docker.io docker:docker.io docker-registry:docker-registry
  nc.openbsd:netcat-openbsd $image"
fi
if [ "${1:-}" = kernels ]; then
  wanted="$wanted qemu-system-x86_64:qemu-system-x86 kmod:kmod cpio:cpio ipvsadm:ipvsadm
  /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring"
fi
if [ "${1:-}" = skew ]; then
  wanted="$wanted /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring"
fi
if [ "${1:-}" = image ]; then
  wanted="$wanted $image"
fi
if [ "${1:-}" = all ]; then
  wanted="$wanted $image curl:curl prometheus:prometheus promtool:prometheus
  dockerd:docker.io docker:docker.io docker-registry:docker-registry
  pre-commit:pre-commit git:git shellcheck:shellcheck
  /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf:fonts-dejavu-core"
fi

PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
missing=''
for pair in $wanted; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || [ -e "${pair%%:*}" ] || missing="$missing ${pair##*:}"
done
missing=$(echo "$missing" | tr -s ' ' '\n' | sort -u | tr '\n' ' ')

if [ -n "${missing% }" ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: missing packages: $missing" >&2
    echo "setup: install them (on Debian, as root: apt-get install $missing), then run this again" >&2
    exit 1
  fi
  echo "setup: installing Debian packages: $missing"
  export DEBIAN_FRONTEND=noninteractive
  # Tests start their own Prometheus, Docker and registry. Debian would start a daemon of each, on all addresses, at once
  # and at each boot. dpkg's policy layer (policy-rc.d) prevents the first, and `disable` the second.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
  fi
  apt-get -qq update
  echo "$missing" | xargs apt-get -qq install -y --no-install-recommends >/dev/null
  for package in $missing; do
    case "$package" in
      prometheus) units=prometheus.service ;;
      docker.io) units='docker.service docker.socket containerd.service' ;;
      containerd) units=containerd.service ;;
      docker-registry) units=docker-registry.service ;;
      *) continue ;;
    esac
    echo "$units" | xargs systemctl --quiet disable >/dev/null 2>&1 || true
  done
fi

# npm writes this file last, so an interrupted installation is repeated.
stamp=node_modules/.package-lock.json
if [ ! -e "$stamp" ] || [ -n "$(find package-lock.json -newer "$stamp")" ]; then
  echo 'setup: installing npm packages from package-lock.json'
  npm ci --ignore-scripts --no-progress --loglevel=error
  touch "$stamp"
fi

if [ "${1:-}" = skew ]; then
  for release in bullseye bookworm trixie sid; do
    [ -e "bin/tools/$release" ] || echo "setup: installing nft and iptables of Debian's $release in bin/tools"
    code=0
    test/lab/release.sh "$release" "bin/tools/$release" || code=$?
    [ "$code" -ne 75 ] || echo "setup: skipped nft and iptables of Debian's $release: they cannot be downloaded" >&2
    [ "$code" -eq 0 ] || [ "$code" -eq 75 ] || exit "$code"
  done
fi
