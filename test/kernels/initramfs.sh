#!/bin/sh
# Writes an initramfs for the kernel that fetch.sh has unpacked to DIR: it makes the root of this machine, read-only, the root
# of the virtual machine, with a layer in memory for what is written there.
# Usage: initramfs.sh DIR FILE
set -eu
dir=$1 file=$2
release=$(ls "$dir/lib/modules")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for top in bin lib lib64 sbin; do
  mkdir -p "$work/usr/$top"
  ln -s "usr/$top" "$work/$top"
done
mkdir "$work/modules" "$work/dev" "$work/lower" "$work/upper" "$work/new"
{
  echo '#!/bin/sh'
  for module in virtio_pci 9pnet_virtio 9p overlay; do
    modprobe --dirname "$dir" --set-version "$release" --show-depends "$module"
  done | sed -n 's/^insmod //p' | awk '!seen[$1]++' | while read -r path; do
    cp "$path" "$work/modules"
    echo "insmod /modules/$(basename "$path") || true"
  done
  cat << 'EOF'
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose root /lower
mount -t tmpfs tmpfs /upper
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /new
exec switch_root /new /bin/sh "$CHECKOUT/test/kernels/init.sh"
EOF
} > "$work/init"
chmod 755 "$work/init"
for program in sh insmod mount mkdir switch_root; do
  path=$(command -v "$program")
  ldd "$path" | grep -o '/[^ ]*' | xargs cp --dereference --parents --target-directory="$work" "$path"
done
(cd "$work" && find . | cpio --quiet --create --format=newc) > "$file"
