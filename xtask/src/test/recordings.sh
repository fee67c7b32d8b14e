# Runs in the lab: makes the recordings that memslot-user/tests/lab.rs checks, with both attach kinds.
set -e
cd "$LAB_OUT"

# recorded ATTACH NAME COMMAND…: records while the command runs; what it prints goes to ATTACH-NAME.json.
recorded() {
    attach=$1 name=$1-$2
    shift 2
    echo "$name"
    memslot record -o "$name" --attach "$attach" --label "$name" -- \
        sh -c 'out=$1; shift; exec "$@" >"$out"' sh "$name.json" "$@"
}

# older ATTACH NAME COMMAND…: the same, but the command has set up its VM or device before the recording.
older() {
    attach=$1 name=$1-$2
    shift 2
    echo "$name"
    mkfifo "/tmp/go-$name"
    "$@" --wait --hold-open <"/tmp/go-$name" >"$name.json" &
    exec 9>"/tmp/go-$name"
    until grep -q '"ready"' "$name.json"; do sleep 0.05; done
    memslot record -o "$name" --attach "$attach" --label "$name" -- \
        sh -c 'echo >&9; until grep -q "\"end\"" "$1"; do sleep 0.05; done' sh "$name.json"
    echo >&9
    exec 9>&-
    wait
}

for attach in fentry kprobe; do
    slots="memslot workload slots --json"
    recorded $attach slots-ram $slots --slots 53 --order shuffled --accesses 1500 --rounds 2
    recorded $attach slots-mmio $slots --slots 32 --mmio 20 --gap 10 --accesses 1500 --rounds 2
    recorded $attach slots-2011 $slots --layout 2011 --accesses 500 --rounds 2 --mmio 10
    recorded $attach slots-churn $slots --slots 20 --order shuffled --churn mixed --accesses 400 --rounds 8 --mmio 5
    older $attach slots-older $slots --slots 200 --order shuffled --accesses 800 --rounds 2
    ple="memslot workload ple --json"
    recorded $attach ple-under $ple --undercommit --pauses 300
    recorded $attach ple-over $ple --overcommit --pauses 300
    vhost="memslot workload vhost --json"
    recorded $attach regions-53 $vhost --regions 53 --order shuffled --kicks 2
    recorded $attach regions-cross $vhost --regions 100 --order shuffled --cross 30 --kicks 2 --chain 4
    recorded $attach regions-509 $vhost --regions 509 --kicks 2 --chain 1
    older $attach regions-older $vhost --regions 300 --order shuffled --kicks 2
done

# The same with the kernel's own trace events beside it: its windows, and what moves them.
events=/sys/kernel/tracing/events
echo 16384 >/sys/kernel/tracing/buffer_size_kb
traced="kvm/kvm_ple_window_update kvm/kvm_entry kvm/kvm_exit kvm/kvm_userspace_exit sched/sched_switch"
for event in $traced; do echo 1 >$events/$event/enable; done
recorded fentry ple-traced memslot workload ple --json --overcommit --pauses 300
for event in $traced; do echo 0 >$events/$event/enable; done
cat /sys/kernel/tracing/trace >fentry-ple-traced.trace
