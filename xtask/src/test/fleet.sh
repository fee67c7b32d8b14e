# Runs in the lab: what programs are told of a live host. fleet.rs and fleet.py hold it against the workloads' own words.
set -e
here=$PWD
cd "$LAB_OUT"

# How often kvm_amd is held, by VMs and by probes.
held() {
    sed -n 's/^kvm_amd [0-9]* \([0-9]*\) .*/\1/p' /proc/modules
}
before=$(held)

memslot doctor --json >doctor.json || [ $? -eq 1 ]

# Hosts of a fleet, each with a recording. The last one is small enough to be kept as a fixture.
hostname node-a
memslot record -o live.rec --label live --json >record.ndjson -- sh -c '
    memslot workload slots --json --wait --slots 53 --order shuffled --accesses 3000 --mmio 5 </dev/null >slots.ndjson
    memslot workload ple --json --overcommit --pauses 300 >ple.ndjson
    memslot workload vhost --json --regions 53 --order shuffled --kicks 2 >vhost.ndjson'
hostname node-b
memslot record -o histogram.rec --label busy --mode histogram -- \
    memslot workload slots --slots 509 --order shuffled --accesses 6000 --rounds 4 --mmio 5 --gap 5
hostname node-c
memslot record -o small.rec --label small -- sh -c '
    memslot workload slots --slots 8 --order shuffled --churn mixed --accesses 60 --rounds 4 --mmio 10 --gap 10
    memslot workload ple --overcommit --pauses 20
    memslot workload vhost --regions 9 --order shuffled --kicks 1 --queue 64 --chain 4'
hostname 'odd/../name=ü'
memslot record -o odd.rec --probe page_fault -- memslot workload slots --slots 3 --accesses 50

# Live figures, with the rights that the systemd unit has, and with clients that say nothing beside.
limited="$here/ld-linux-x86-64.so.2 --library-path $here $here/setpriv --no-new-privs --bounding-set @CAPABILITIES@"
$limited /bin/memslot serve --listen 127.0.0.1:9752 --json >serve.json 2>serve.log &
server=$!
until grep -q metrics serve.json; do sleep 0.05; done
for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 1000 | nc 127.0.0.1 9752 >/dev/null &
done
memslot workload slots --json --slots 53 --order shuffled --accesses 3000 --mmio 5 >served-slots.json
memslot workload ple --json --overcommit --pauses 300 >served-ple.json
memslot workload vhost --json --regions 53 --order shuffled --kicks 2 >served-vhost.json
# Until the counters have been read after that.
end=$(date +%s)
read_at() {
    wget -q -O served.txt http://127.0.0.1:9752/metrics
    sed -n 's/^memslot_read_timestamp_seconds \([0-9]*\).*/\1/p' served.txt
}
until [ "$(read_at)" -gt "$end" ]; do sleep 0.2; done
kill -TERM $server
wait $server
killall nc sleep 2>/dev/null || true
if [ "$(held)" != "$before" ] || [ -s /sys/kernel/debug/kprobes/list ]; then
    echo "probes are left: kvm_amd is held $(held) times, and was $before times before"
    exit 1
fi
