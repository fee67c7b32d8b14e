#!/bin/busybox sh
# The first process of a lab guest. It mounts, loads the modules, runs the command and hands back what came of it
# over three virtio ports: 1 the command's output, 2 the returned files as tar, 3 the report ("start", "module …",
# "exit N", "end"). "end" is the marker of success: the host takes nothing for done without it.
/bin/busybox --install -s /bin
export PATH=/bin:/work HOME=/root TMPDIR=/tmp TERM=dumb LAB_OUT=/out

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
# Kernel warnings belong on the console, which "quiet" has set to errors only.
dmesg -n 5

# Each line: the module's file, then its parameters. As modprobe does, MODULE.NAME=VALUE from the kernel's command line
# is added.
load() {
    while read -r file parameters; do
        for word in $(cat /proc/cmdline); do
            case $word in
            "${file%.ko}".*=*) parameters="$parameters ${word#*.}" ;;
            esac
        done
        # Unquoted on purpose: one word a parameter.
        message=$(insmod "/lab/modules/$file" $parameters 2>&1) || echo "module $file: $message" >>/lab/complaints
    done <"$1"
}
: >/lab/complaints
load /lab/transport
tries=0
# The device's file is there a moment before it can be opened.
until [ -c /dev/vport0p3 ] && true 2>/dev/null >/dev/vport0p3; do
    tries=$((tries + 1))
    if [ "$tries" -gt 500 ]; then
        echo "memslot lab: the virtio ports did not appear"
        cat /lab/complaints
        poweroff -f
    fi
    sleep 0.02
done
exec 3>/dev/vport0p3
load /lab/order
cat /lab/complaints >&3
ip link set lo up
hostname memslot-lab

# Straight into the port: what the command has written before it crashes the kernel is with the host by then. The price
# is that /dev/stdout cannot be opened a second time (a port has one opener, the kernel says EBUSY).
echo start >&3
cd /work || poweroff -f
sh /lab/command </dev/null >/dev/vport0p1 2>&1 3>&-
code=$?
# What it has left running must not change files that are being sent.
kill -9 -1

if tar -c -f - -C /out . >/dev/vport0p2; then
    echo "exit $code" >&3
    echo end >&3
else
    echo "memslot lab: the files in $LAB_OUT could not be sent"
fi
poweroff -f
