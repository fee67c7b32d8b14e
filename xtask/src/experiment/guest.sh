# In the guest: one layout. Recordings and counts of the stock kernel and of the engines go to $LAB_OUT. The runs of the
# engines are one recording, for attaching takes far longer than a run; each has a VM or a memory table of its own.
# Set by the lines in front of this: name (the module), cached (0 or 1), probe, engines, own_tree, workload.
here=$PWD
cd "$LAB_OUT" || exit 2
parameters=/sys/module/$name/parameters

fail() {
    echo "$1"
    exit 2
}

set_to() {
    echo "$2" >"$parameters/$1" || fail "the module's parameter $1 cannot be set to $2"
}

# record FOLDER COMMAND…
record() {
    folder=$1
    shift
    memslot record --probe "$probe" --output "$folder" --label "$folder" --ring-size 64 -- "$@" >/dev/null ||
        fail "$folder could not be recorded whole"
}

# What the workload takes without probes.
plain() {
    $workload --json >said || fail "the workload failed"
    tail -1 said >"$1.workload.json"
    rm said
}

# Each search timed, and each answer compared with the stock search's.
timed() {
    [ "$1" = stock ] && set_to engine "$own_tree"
    for count in timed verified mismatches unsure; do set_to $count 0; done
    set_to verify 1
    set_to timing 1
    $workload >/dev/null || fail "the workload failed"
    set_to timing 0
    set_to verify 0
    cat "$parameters/timed" >"$1-$2.timed"
    for count in verified mismatches unsure; do
        echo "$count $(cat "$parameters/$count")" >>"$1-$2.timed"
    done
}

echo "the kernel as it is"
record off-1 $workload
plain off
insmod "$here/$name.ko" || fail "$name cannot be loaded"
until [ "$(cat "/sys/kernel/livepatch/$name/transition")" = 0 ]; do sleep 0.1; done
set_to cached "$cached"
echo "calibrating"
memslot experiment calibrate "$series" >calibration.json || fail "the module's searches could not be calibrated"
backwards=
for engine in stock $engines; do backwards="$engine $backwards"; done
echo "recording each engine, there and back"
cat >"$here/runs.sh" <<END
for engine in stock $engines $backwards; do
    echo \$engine >$parameters/engine || exit 1
    $workload >/dev/null || exit 1
done
END
record runs sh "$here/runs.sh"
run=1
for engine in stock $engines - $backwards; do
    if [ "$engine" = - ]; then
        run=2
        continue
    fi
    echo "timing $engine, run $run"
    set_to engine "$engine"
    [ $run = 1 ] && plain "$engine"
    timed "$engine" $run
done
echo 0 >"/sys/kernel/livepatch/$name/enabled"
while [ -e "/sys/kernel/livepatch/$name" ]; do sleep 0.1; done
memslot experiment calibrate "$series" --off >calibration-off.json || fail "the function could not be calibrated"
echo "the kernel as it was"
record off-2 $workload
rmmod "$name" || fail "$name cannot be removed"
exit 0
