#!/bin/sh
# Builds images that stand in for those that Dockerfile.in begins with, for where no registry can be reached: of Debian's packages,
# from the archive in apt's sources, and of the Node.js and npm that npm's registry has. They get this machine's settings of apt and
# npm, and its certificates. The base has the libraries of C and C++ and nothing else, so that what an image lacks there, it lacks here.
# Usage: stand-ins.sh BUILDER ARCH, where BUILDER is docker or buildah
set -eu
builder=$1 arch=$2
cpu=$(echo "$arch" | sed s/amd64/x64/)
cd "$(dirname "$0")/.."
archive=$(apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' | grep -m 1 '/debian/*$') || {
  echo "stand-ins: apt's sources name no archive of Debian, such as https://mirror.example/debian" >&2
  exit 1
}
archive=${archive%/}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-config dump | grep '^Acquire::.*Check' > "$work/apt.conf" || true

# Usage: debian FILE MMDEBSTRAP_FLAG...
debian() {
  file=$1
  shift
  printf 'deb %s trixie main\ndeb %s-security trixie-security main\n' "$archive" "$archive" |
    mmdebstrap --quiet --architectures="$arch" --keyring=/usr/share/keyrings/debian-archive-keyring.gpg --aptopt="$work/apt.conf" \
      --skip=output/dev,output/mknod "$@" trixie "$work/$file" -
}

# Usage: image NAME, with the Dockerfile on standard input
image() {
  cat > "$work/Dockerfile"
  DOCKER_BUILDKIT=1 "$builder" build --platform "linux/$arch" --tag "localhost/stand-in-$1" "$work" >&2
}

# npm skips the packages of other CPUs.
npm=.
if [ ! -e "node_modules/node-linux-$cpu" ]; then
  npm=$work/npm
  mkdir "$npm"
  cp package.json package-lock.json .npmrc "$npm"
  npm ci --prefix "$npm" --omit=dev --ignore-scripts --no-progress --loglevel=error --os=linux --cpu="$cpu" --libc=glibc >&2
fi
local=$work/local
npm install --global --prefix "$local" --no-progress --loglevel=error "npm@$(npm --version)" >&2
cp "$npm/node_modules/node-linux-$cpu/bin/node" "$local/bin/"
cp "$npm/node_modules/node-linux-$cpu/LICENSE" "$local/"
mkdir "$local/etc"
cp /etc/ssl/certs/ca-certificates.crt "$local/etc/"
printf 'registry=%s\ncafile=/usr/local/etc/ca-certificates.crt\n' "$(npm config get registry)" > "$local/etc/npmrc"

debian base.tar --variant=extract --include=base-files,libc6,libgcc-s1,libstdc++6 --extract-hook="rm \"\$1/usr/bin/mawk\""
printf 'FROM scratch\nADD base.tar /\n' | image base
# binutils is in the image of Node.js.
debian debian.tar --variant=apt --include=binutils
printf 'FROM scratch\nADD debian.tar /\n' | image debian
printf 'FROM localhost/stand-in-debian\nCOPY local /usr/local\n' | image node
