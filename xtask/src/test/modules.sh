# Runs in the lab: our own kernel modules do what they say. With the argument "exact" instructions are counted for time,
# and costs are compared to the instruction; with "busy", slots and tables change under look-ups, and many of them come
# and go, on several CPUs; with "stress SECONDS" that goes on for so long, while the engine is switched again and again.
mode=$1
seconds=$2
failures=0

# check WHAT COMMAND…
check() {
    what=$1
    shift
    if "$@"; then
        echo "ok $what"
    else
        echo "FAILED: $what"
        failures=$((failures + 1))
    fi
}

vhost() {
    memslot workload vhost --regions "$1" --kicks "$2" --json | tail -1
}

slots() {
    memslot workload slots --slots "$1" --mmio 5 --gap 5 --rounds "$2" --refault mprotect --churn mixed --json | tail -1
}

# ns that 61,440 translations take.
cost() {
    vhost 509 60 | sed 's/.*"duration_ns":\([0-9]*\).*/\1/'
}

# Less than one instruction a look-up.
same_cost() {
    echo "# $1 and $2 ns"
    [ $(($1 - $2)) -lt 61440 ] && [ $(($2 - $1)) -lt 61440 ]
}

# What the probes see of 10,240 translations: number, median and 90th percentile. Beyond that lie page faults.
probed() {
    memslot record --force --output probed --probe translate -- memslot workload vhost --regions 509 --kicks 10 \
        >/dev/null 2>&1 || echo "not recorded"
    memslot summary probed | awk '/Memory table/ { print $5, $8, $9, $10, $11 }'
}

same_figures() {
    echo "# $1"
    [ "$1" = "$2" ] || echo "# $2"
    [ -n "$1" ] && [ "$1" = "$2" ]
}

patch() {
    name=$1
    series=${name##*_}
    parameters=/sys/module/$name/parameters
    insmod "$name.ko" || return 1
    until [ "$(cat "/sys/kernel/livepatch/$name/transition")" = 0 ]; do sleep 0.1; done
}

unpatch() {
    echo 0 >"/sys/kernel/livepatch/$name/enabled"
    while [ -e "/sys/kernel/livepatch/$name" ]; do sleep 0.1; done
}

untouched() {
    [ ! -s /sys/kernel/tracing/enabled_functions ] && ! grep -q memslot_klp /proc/kallsyms &&
        [ ! -e "/sys/module/$name" ] && [ ! -e "/sys/kernel/debug/$name" ] && [ ! -e "/sys/kernel/livepatch/$name" ]
}

# Every answer is compared with the stock search's. 6.1 looks up VMs that are being destroyed, which is left to the stock
# search; that is all that may be unsure, and seldom.
verified() {
    allowed=0
    [ "$mode$name" = busymemslot_klp_kvm ] && allowed=$(($(cat $parameters/verified) / 100))
    for count in verified mismatches unsure lookups steps; do
        eval "$count=\$(cat $parameters/$count)"
    done
    echo "# $engine: lookups $lookups, steps $steps, verified $verified, mismatches $mismatches, unsure $unsure"
    [ "$verified" -ge "$1" ] && [ "$mismatches" = 0 ] && [ "$unsure" -le $allowed ] && [ "$steps" -ge "$lookups" ]
}

# with_all_engines LOOK-UPS COMMAND…
with_all_engines() {
    at_least=$1
    shift
    echo 1 >$parameters/counting
    echo 1 >$parameters/verify
    for cached in 0 1; do
        echo $cached >$parameters/cached
        for engine in linear linear_by_size sorted_array sorted_array_kernel wbtree eytzinger; do
            echo $engine >$parameters/engine
            for count in verified mismatches unsure lookups steps; do echo 0 >$parameters/$count; done
            "$@" >said 2>&1 || echo "FAILED: $*"
            cut -c1-160 said | sed 's/^/# /'
            check "$name: $engine, cached $cached: every answer is the stock search's" verified "$at_least"
        done
    done
}

# Slots or tables change while they are looked up, until so many answers were compared.
concurrently() {
    while [ "$(cat $parameters/verified)" -lt "$1" ]; do
        memslot experiment stress "$series" --time 2s || return 1
    done
}

# The same for so many seconds, and meanwhile the engine changes, too.
stressed() {
    echo 1 >$parameters/verify
    for count in verified mismatches unsure; do echo 0 >$parameters/$count; done
    memslot experiment stress "$series" --time "$1s" >said 2>&1 &
    job=$!
    while kill -0 $job 2>/dev/null; do
        for engine in linear linear_by_size sorted_array sorted_array_kernel wbtree eytzinger stock; do
            for cached in 0 1; do
                echo $cached >$parameters/cached
                echo $engine >$parameters/engine
                sleep 0.3
            done
        done
    done
    wait $job
    code=$?
    sed 's/^/# /' said
    echo "# verified $(cat $parameters/verified), mismatches $(cat $parameters/mismatches), unsure $(cat $parameters/unsure)"
    echo 0 >$parameters/verify
    [ $code = 0 ] && [ "$(cat $parameters/mismatches)" = 0 ] && [ "$(cat $parameters/verified)" -gt 0 ]
}

if [ "$mode" = stress ]; then
    for name in memslot_klp_vhost memslot_klp_kvm; do
        patch $name || exit 1
        check "$name: no harm and no difference in $seconds seconds" stressed "$seconds"
        unpatch
        rmmod $name
        check "$name: nothing is left" untouched
    done
    exit $((failures > 0))
fi

if [ "$mode" = exact ]; then
    insmod memslot_truth.ko
    check "memslot_truth: every length is exact" \
        awk '{ print "#", $0; checked++; wrong += $2 != $3 } END { exit checked < 5 || wrong }' \
        /sys/kernel/debug/memslot_truth/check
    rmmod memslot_truth
fi

mv /lab/order /lab/elsewhere
check "outside the lab a livepatch refuses" sh -c '! insmod memslot_klp_vhost.ko 2>/dev/null'
mv /lab/elsewhere /lab/order

stock=$(cost)
[ "$mode" = exact ] && stock_probed=$(probed)
patch memslot_klp_vhost || exit 1
if [ "$mode" = exact ]; then
    with_all_engines 60000 vhost 509 60
    echo 0 >$parameters/verify
    echo 0 >$parameters/counting
    echo 0 >$parameters/cached
    echo linear >$parameters/engine
    echo "# linear $(cost) ns"
else
    with_all_engines 6000 sh -c 'for regions in 3 53 255; do
        (for again in 1 2 3; do memslot workload vhost --regions $regions --kicks 2 >/dev/null || echo failed; done) &
    done; wait'
    with_all_engines 100000 concurrently 100000
    check "vhost: engines are switched under look-ups" stressed 15
fi
unpatch
if [ "$mode" = exact ]; then
    check "switched off, it costs what it cost" same_cost "$stock" "$(cost)"
    check "switched off, the probes see what they saw" same_figures "$stock_probed" "$(probed)"
fi
rmmod memslot_klp_vhost
check "vhost: nothing is left" untouched
if [ "$mode" = exact ]; then
    check "unloaded, it costs what it cost" same_cost "$stock" "$(cost)"
fi

patch memslot_klp_kvm || exit 1
if [ "$mode" = exact ]; then
    with_all_engines 5000 slots 509 2
else
    with_all_engines 1000 sh -c 'for slots in 3 53 117; do
        (for again in 1 2; do memslot workload slots --slots $slots --vcpus 2 --accesses 256 --rounds 3 --churn mixed \
            >/dev/null || echo failed; done) &
    done; wait'
    with_all_engines 100000 concurrently 100000
    check "kvm: engines are switched under look-ups" stressed 15
fi
unpatch
rmmod memslot_klp_kvm
check "kvm: nothing is left" untouched
exit $((failures > 0))
