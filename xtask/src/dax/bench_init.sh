#!/bin/sh
# The first process of the guest of `cargo xtask dax --bench`. What the host is to know are lines on the serial console that begin
# with `TEMBO`.
set -u
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/ttyS0 2>&1

fail() {
    echo "TEMBO FAILED $*"
    poweroff -f
}

for module in nfit nd_pmem dax_pmem crc32c_generic ext4; do
    modprobe "$module" || fail "modprobe $module"
done
ndctl create-namespace --force --reconfig=namespace0.0 --mode=fsdax --map=mem >/dev/null ||
    fail "ndctl create-namespace"
mkfs -t ext4 -q -F -b 4096 /dev/pmem0 || fail "mkfs"
mount -t ext4 -o dax /dev/pmem0 /pmem || fail "mount -o dax"
echo "TEMBO MOUNTED $(uname -r) $(grep ' /pmem ' /proc/mounts)"
tembo-lab bench durablefs-small durablefs-3.3 --rounds 1 --memory /pmem --disk /pmem --out /tmp/out |
    sed 's/^/TEMBO /' || fail "tembo-lab bench"
sed 's/^/TEMBO PAGE /' /tmp/out/experiments.md || fail "no page"
umount /pmem || fail "umount"
echo "TEMBO DONE"
poweroff -f
