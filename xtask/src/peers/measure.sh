# Runs in the lab, in front of a list of measurements: runs workloads while tools measure them. Nothing polls while a
# workload's clock runs; whoever waits, waits for a pipe.

here=$PWD

# perf and bpftrace find their libraries, and are found.
ln -s "$here/peers/lib" /lib64
export LD_LIBRARY_PATH="$here/peers/lib"
export PATH="$PATH:$here/peers"

# Started by each tool as the command to trace, when all is attached: says so, and lasts until it is told to end.
cat >"$here/held" <<'HELD'
#!/bin/sh
# A recorder that stands still costs what its probes cost, and no more.
[ -z "$STANDS_STILL" ] || kill -STOP $PPID
echo attached >/tmp/attached
read -r _ </tmp/release
[ -z "$STANDS_STILL" ] || kill -CONT $PPID
HELD
# bpftrace starts nothing but ELF programs.
cat >"$here/bpftrace-while" <<'WHILE'
#!/bin/sh
exec bpftrace -e "$1" -c "/bin/sh $2"
WHILE
chmod +x "$here/held" "$here/bpftrace-while"

# measure NAME WORKLOAD [TOOL…]: runs `memslot workload WORKLOAD` while TOOL, called with a command to trace, has
# attached; without one, alone. Leaves NAME.workload (JSON) and NAME.tool (what it said).
measure() {
    name=$1 workload=$2
    shift 2
    echo "$name"
    for pipe in go said attached release; do
        rm -f "/tmp/$pipe"
        mkfifo "/tmp/$pipe"
    done
    # For both directions: opening waits for nobody, and nobody sees an end.
    exec 5<>/tmp/go 6<>/tmp/said 7<>/tmp/attached 8<>/tmp/release
    # Unquoted on purpose: several words.
    memslot workload $workload --json --wait --hold-open </tmp/go >/tmp/said 2>"/tmp/$name.error" &
    read -r line <&6
    {
        "$@" "$here/held"
        echo "exit code $?"
        echo failed >/tmp/attached
    } >"$LAB_OUT/$name.tool" 2>&1 &
    tool=$!
    read -r state <&7
    if [ "$state" != attached ]; then
        echo "it did not attach: $*"
        cat "$LAB_OUT/$name.tool" "/tmp/$name.error"
        exit 1
    fi
    echo >&5
    read -r line <&6
    echo >&8
    wait $tool
    echo >&5
    read -r line <&6
    echo "$line" >"$LAB_OUT/$name.workload"
    wait
}

uname -r >"$LAB_OUT/release"
