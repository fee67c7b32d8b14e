# Runs in the lab behind peers/measure.sh: the same calls are counted by the probes, bpftrace, perf and the kernel's
# kprobe_profile, all at once.
events=/sys/kernel/tracing

# compared ATTACH PROBE FUNCTION WORKLOAD
compared() {
    event=$1_$2
    echo "p:memslot/$event $3" >>$events/kprobe_events || exit 1
    echo "r:memslot/${event}_return $3" >>$events/kprobe_events || exit 1
    measure "$event" "$4" \
        perf stat -a -x , -o "$LAB_OUT/$event.perf" -e "memslot:$event,memslot:${event}_return" \
        memslot record -o "$LAB_OUT/$event.recording" --probe "$2" --attach "$1" -- \
        bpftrace-while "kprobe:$3 { @entry = count(); } kretprobe:$3 { @return = count(); }
            kfunc:$3 { @fentry = count(); } kretfunc:$3 { @fexit = count(); }"
}

for attach in fentry kprobe; do
    compared $attach page_fault kvm_mmu_page_fault "slots --slots 53 --order shuffled --accesses 1500 --rounds 2"
    compared $attach ple pause_interception "ple --undercommit --pauses 300"
    compared $attach translate translate_desc "vhost --regions 53 --order shuffled --kicks 2"
done
cat $events/kprobe_profile >"$LAB_OUT/kprobe_profile"
