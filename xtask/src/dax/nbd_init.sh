#!/bin/sh
# The first process of the guest of `cargo xtask dax --nbd`. What the host is to know are lines on the
# serial console that begin with `TEMBO`.
set -u
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/ttyS0 2>&1

# The words of the kernel's command line that are ours: mode, seed, acked.
for word in $(cat /proc/cmdline); do
    case $word in
        tembo.*=*) eval "$(echo "${word#tembo.}" | tr -cd 'a-z0-9=')" ;;
    esac
done

fail() {
    echo "TEMBO FAILED $*"
    poweroff -f
}

for module in virtio_pci virtio_blk crc32c_generic ext4; do
    modprobe "$module" || fail "modprobe $module"
done
tries=0
until [ -b /dev/vda ]; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || fail "no /dev/vda"
    usleep 20000
done
mkdir -p /disk
mount -t ext4 -o discard /dev/vda /disk || fail "mount"
echo "TEMBO MOUNTED $(uname -r) $(grep ' /disk ' /proc/mounts)"

case $mode in
    round)
        load run /disk "$seed" "$acked" || fail "verify"
        fail "the load ended"
        ;;
    last)
        load verify /disk "$seed" "$acked" || fail "verify"
        ;;
esac
umount /disk || fail "umount"
echo "TEMBO DONE"
poweroff -f
