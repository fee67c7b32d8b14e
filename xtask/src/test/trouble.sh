# Runs in the lab: everything that goes wrong for users must end in a clear sentence, the right exit code, a readable
# recording, and no probe left behind. The order matters: what cannot be undone comes last.
cd /tmp
failures=0

# expect CODE TEXT COMMAND…: the command ends with CODE and says TEXT (a basic regular expression).
expect() {
    want=$1 text=$2
    shift 2
    "$@" >/tmp/said 2>&1
    code=$?
    if [ $code -ne "$want" ] || ! grep -q -e "$text" /tmp/said; then
        echo "FAILED (exit code $code, expected $want and \"$text\"): $*"
        cat /tmp/said
        failures=$((failures + 1))
    else
        echo "ok $*"
    fi
    # No bare errno ever reaches a user.
    if grep -q -e 'os error' /tmp/said; then
        echo "FAILED (bare errno): $*"
        cat /tmp/said
        failures=$((failures + 1))
    fi
}

# How often kvm_amd is held, by VMs and by probes.
held() {
    sed -n 's/^kvm_amd [0-9]* \([0-9]*\) .*/\1/p' /proc/modules
}

# free WHAT: nothing of ours holds the modules' functions.
free() {
    if [ -s /sys/kernel/debug/kprobes/list ]; then
        echo "FAILED: kprobes are left after $1"
        cat /sys/kernel/debug/kprobes/list
        failures=$((failures + 1))
    fi
    if [ "$(held)" != "$before" ]; then
        echo "FAILED: kvm_amd is held $(held) times after $1, and was $before times before"
        failures=$((failures + 1))
    fi
}

# Ends of a recording. The workload holds its VM open until its standard input ends.
mkfifo hold
memslot workload slots --wait --hold-open <hold >workload.log &
vm=$!
exec 8>hold
until grep -q ready workload.log; do sleep 0.05; done
before=$(held)

memslot record -o interrupted >/tmp/said 2>&1 &
recorder=$!
until [ -s interrupted/faults.arrow ]; do sleep 0.05; done
echo >&8
until grep -q '^end' workload.log; do sleep 0.05; done
sleep 1.2
kill -INT $recorder
wait $recorder
[ $? -eq 0 ] || { echo "FAILED: Ctrl-C: exit code"; cat /tmp/said; failures=$((failures + 1)); }
expect 0 '"ended_by": "signal"' cat interrupted/meta.json
expect 0 '"complete": true' memslot summary --json --no-replay interrupted
free "Ctrl-C"

memslot record -o killed -- memslot workload slots --slots 300 --accesses 20000 --rounds 50 >/tmp/said 2>&1 &
recorder=$!
# Until a batch of faults has been written behind the table's head.
until [ -e killed/faults.arrow ] && [ "$(wc -c <killed/faults.arrow)" -gt 20000 ]; do sleep 0.05; done
# The workload would outlive its recorder.
child=$(cat /proc/$recorder/task/$recorder/children)
kill -9 $recorder
wait $recorder
kill -9 "${child% }"
until [ "$(held)" = "$before" ]; do sleep 0.05; done
expect 1 'page_fault *fentry' memslot summary --no-replay killed
expect 1 '[1-9][0-9]*,[0-9][0-9][0-9]' memslot summary --no-replay killed
free "kill -9"

(sleep 2; echo >&8; exec 8>&-) &
expect 0 'page_fault' memslot record -o gone --vm $vm
expect 0 '"ended_by": "vm_gone"' cat gone/meta.json
exec 8>&-
wait
before=$(held)

expect 1 'the command failed' memslot record -o failing -- sh -c 'exit 3'
expect 0 '"complete": true' cat failing/meta.json
expect 2 'cannot start nonsense' memslot record -o starting -- nonsense
expect 2 'there is no process 999999' memslot record -o nobody --vm 999999
expect 2 'has no VM' memslot record -o nobody --vm $$
expect 1 'No such file' ls nobody starting

# Places.
expect 2 'force' memslot record -o gone -- true
expect 0 'page_fault' memslot record -o gone --force -- true
mkdir small
mount -t tmpfs -o size=96k tmpfs small
expect 2 'space' memslot record -o small/rec -- memslot workload slots --accesses 20000 --pattern random --slots 500
expect 1 'page_fault' memslot summary --no-replay small/rec
free "a full disk"
mkdir frozen
mount -t tmpfs -o ro tmpfs frozen
expect 2 'read-only' memslot record -o frozen/rec -- true
expect 2 'meta.json' memslot summary /tmp/small

# Permission.
mkdir -p /etc
echo 'nobody:x:65534:65534:nobody:/:/bin/sh' >/etc/passwd
expect 2 'run memslot with sudo' su nobody -c '/bin/memslot doctor'

# What the kernel lacks.
mkdir modules-without-btf
cp /sys/kernel/btf/vmlinux modules-without-btf/
mount --bind modules-without-btf /sys/kernel/btf
expect 1 'figures are left out' memslot doctor
expect 0 'page_fault *kprobe' memslot record -o degraded -- memslot workload slots --accesses 100
umount /sys/kernel/btf
mount -t tmpfs tmpfs /sys/kernel/btf
expect 2 'CONFIG_DEBUG_INFO_BTF' memslot doctor
umount /sys/kernel/btf
rmmod vhost_net
rmmod tap
rmmod vhost
expect 1 'modprobe vhost_net' memslot doctor
rmmod kvm_amd
expect 1 'neither kvm_amd nor kvm_intel is loaded' memslot doctor
rmmod kvm
expect 1 'modprobe kvm_amd' memslot doctor

# Lockdown cannot be taken back.
mount -t securityfs securityfs /sys/kernel/security
echo confidentiality >/sys/kernel/security/lockdown
expect 2 'locked down (confidentiality)' memslot doctor

exit $((failures > 0))
