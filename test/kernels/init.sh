# shellcheck shell=sh
# The first process of a virtual machine, in the root that initramfs.sh makes. CHECKOUT and MODULES come from the kernel's
# command line.
export PATH="$CHECKOUT/node_modules/.bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin" HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
for name in share cache; do
  mkdir "/run/$name"
  mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 "$name" "/run/$name"
done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
rm -rf /lib/modules
ln -s "$MODULES/lib/modules" /lib/modules
# Without it, Node.js compiles for most of the time of an emulated machine.
export NODE_COMPILE_CACHE=/run/cache
modprobe -a dummy ip_vs ip_vs_rr
hostname ip-masq-kernels
cd "$CHECKOUT" || exit
node test/kernels/guest.ts /run/share
sync
# The machine is run with -no-reboot.
echo b > /proc/sysrq-trigger
