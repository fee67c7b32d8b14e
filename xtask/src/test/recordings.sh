# Runs in the lab: makes the recordings that memslot-user/tests/lab.rs checks, with both attach kinds.
set -e
cd "$LAB_OUT"

# recorded ATTACH NAME COMMAND…: records while the command runs; what it prints goes to ATTACH-NAME.json.
# $options are options of the recorder.
options=
recorded() {
    attach=$1 name=$1-$2
    shift 2
    echo "$name"
    # shellcheck disable=SC2086 # several words
    memslot record -o "$name" --attach "$attach" --label "$name" $options -- \
        sh -c 'out=$1; shift; exec "$@" >"$out"' sh "$name.json" "$@"
}

# lossy ATTACH NAME COMMAND…: the same, of a recording that must end with exit code 1 and say that it is incomplete.
lossy() {
    code=0
    recorded "$@" 2>/tmp/said || code=$?
    cat /tmp/said
    [ $code -eq 1 ] && grep -q incomplete /tmp/said
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
    # Modes, filters, and maps that are too small.
    options="--probe translate --mode histogram"
    recorded $attach mode-histogram $vhost --regions 53 --order shuffled --kicks 4
    options="--probe translate --mode sample:10"
    recorded $attach mode-sample $vhost --regions 53 --order shuffled --kicks 10
    options="--probe translate --ring-kib 4"
    lossy $attach ring-full $vhost --regions 53 --order shuffled --kicks 4
    options="--probe translate --histogram-elements 1"
    lossy $attach histogram-full $vhost --regions 53 --order shuffled --kicks 2
    options="--probe page_fault --class no_slot"
    recorded $attach filter-class $slots --slots 32 --mmio 20 --gap 10 --accesses 1500 --rounds 2
    options="--probe translate --queue 0"
    recorded $attach filter-queue $vhost --regions 53 --kicks 2
    options=
done

# What top shows while a workload runs, which says in a file how many calls it made.
# topped ATTACH NAME "OPTIONS" COMMAND…
topped() {
    attach=$1 name=$1-top-$2 shown=$3
    shift 3
    echo "$name"
    # shellcheck disable=SC2086 # several words
    memslot top --once --json --attach "$attach" $shown -- \
        sh -c 'out=$1; shift; exec "$@" >"$out"' sh "$PWD/$name.workload" "$@" >"$name.top"
}
for attach in fentry kprobe; do
    slots="memslot workload slots --json --slots 53 --order shuffled --accesses 1500 --rounds 2"
    topped $attach vm "--by vm --mode histogram" $slots
    topped $attach vcpu "--by vcpu --mode events" $slots
    vhost="memslot workload vhost --json --regions 53 --order shuffled --kicks 4"
    topped $attach device "--by vm --mode histogram" $vhost
    topped $attach queue "--by queue --mode events" $vhost
    topped $attach ple "--by vcpu --mode events" memslot workload ple --json --overcommit --pauses 300
done
memslot top --json --count 3 --interval 300ms >top.ndjson

# The same with the kernel's own trace events beside it: its windows, and what moves them.
events=/sys/kernel/tracing/events
echo 16384 >/sys/kernel/tracing/buffer_size_kb
traced="kvm/kvm_ple_window_update kvm/kvm_entry kvm/kvm_exit kvm/kvm_userspace_exit sched/sched_switch"
for event in $traced; do echo 1 >$events/$event/enable; done
recorded fentry ple-traced memslot workload ple --json --overcommit --pauses 300
for event in $traced; do echo 0 >$events/$event/enable; done
cat /sys/kernel/tracing/trace >fentry-ple-traced.trace
