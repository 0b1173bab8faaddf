#!/bin/sh
# The first process of the guest of `cargo xtask dax`. What the host is to know are lines on the
# serial console that begin with `TEMBO`.
set -u
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/ttyS0 2>&1
ifconfig lo 127.0.0.1 up

# The words of the kernel's command line that are ours: mode, fs, seed, acked.
for word in $(cat /proc/cmdline); do
    case $word in
        tembo.*=*) eval "$(echo "${word#tembo.}" | tr -cd 'a-z0-9=')" ;;
    esac
done

fail() {
    echo "TEMBO FAILED $*"
    poweroff -f
}

for module in nfit nd_pmem dax_pmem crc32c_generic "$fs"; do
    modprobe "$module" || fail "modprobe $module"
done
if [ "$mode" = medium ]; then
    ndctl create-namespace --force --reconfig=namespace0.0 --mode=fsdax --map=mem >/dev/null ||
        fail "ndctl create-namespace"
    case $fs in
        xfs) mkfs -q -f -m reflink=0 /dev/pmem0 || fail "mkfs" ;;
        *) mkfs -t ext4 -q -F -b 4096 /dev/pmem0 || fail "mkfs" ;;
    esac
fi
mount -t "$fs" -o dax /dev/pmem0 /pmem || fail "mount -o dax"
echo "TEMBO MOUNTED $(uname -r) $(grep ' /pmem ' /proc/mounts)"
echo "TEMBO PERSISTENCE $(cat /sys/bus/nd/devices/region*/persistence_domain 2>/dev/null || echo untold)"

pool=/pmem/a.pool
serve() {
    tembo serve --pool $pool --port 6379 --size 1M --size-max 128M >/tmp/ready &
    server=$!
    until grep -q ready /tmp/ready; do
        kill -0 $server || fail "tembo serve"
        usleep 20000
    done
    echo "TEMBO READY $(cat /tmp/ready)"
}
stop() {
    kill -TERM $server
    wait $server || fail "the clean stop: $?"
}
check() {
    tembo check $pool >/tmp/check || { cat /tmp/check; fail "tembo check"; }
    echo "TEMBO CHECK $(grep result /tmp/check)"
}

case $mode in
    medium)
        load probe /pmem || fail "probe"
        tembo doctor /pmem
        mkdir -p /pmem/tmp /pmem/shm /dev/shm
        mount -o bind /pmem/shm /dev/shm || fail "bind"
        export TMPDIR=/pmem/tmp TEMBO_KILL_ROUNDS=3
        # The test that is left out says of an emulation that it is one.
        /tests/flush_domain --skip what_was_stored || fail "flush_domain"
        /tests/store flush || fail "store"
        /tests/kill flush --nocapture || fail "kill"
        echo "TEMBO TESTED"
        serve
        load info 127.0.0.1:6379 || fail "info"
        load verify 127.0.0.1:6379 "$seed" 0 || fail "verify"
        stop
        check
        ;;
    round)
        check
        serve
        load verify 127.0.0.1:6379 "$seed" "$acked" || fail "verify"
        load run 127.0.0.1:6379 "$seed"
        fail "the load ended"
        ;;
    last)
        check
        serve
        load verify 127.0.0.1:6379 "$seed" "$acked" || fail "verify"
        load info 127.0.0.1:6379 || fail "info"
        stop
        check
        ;;
esac
umount /dev/shm
umount /pmem || fail "umount"
echo "TEMBO DONE"
poweroff -f
