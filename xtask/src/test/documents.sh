# Runs in the lab: commands of the documents, as they stand there. What they speak of is there, and what would run for
# minutes is ended as a user would end it.
mkdir -p /tmp/sandbox/bin
cd /tmp/sandbox
export PATH=/tmp/sandbox/bin:$PATH
cat >bin/sudo <<'SUDO'
#!/bin/sh
exec "$@"
SUDO
cat >bin/bash <<'BASH'
#!/bin/sh
exec sh "$@"
BASH
chmod +x bin/sudo bin/bash
failures=0
tried=0

# A VM that can be recorded: the documents call its process 4711.
mkfifo hold
memslot workload slots --wait --hold-open <hold >workload.log &
vm=$!
exec 8>hold
until grep -q ready workload.log; do sleep 0.05; done

# Has the process ended? One that has, but was not waited for, has no files.
is_over() {
    [ -z "$(ls "/proc/$1/fd" 2>/dev/null)" ]
}

# try LINE: it must end with a result, 0 or 1.
try() {
    line=$(echo "$1" | sed "s/\\b4711\\b/$vm/g")
    rm -rf rec memslot.rec before-1 after-1
    # --wait begins at the end of standard input.
    sh -c "exec $line" </dev/null >said 2>&1 &
    pid=$!
    case $line in
    *workload* | *doctor*) ;;
    *)
        # It goes on until somebody ends it: as soon as it has begun, and again, for a signal may come too early.
        until [ -n "$(ls -d ./*/meta.json 2>/dev/null)" ] || grep -q serving said || is_over $pid; do sleep 0.1; done
        until is_over $pid; do
            kill -INT $pid 2>/dev/null
            sleep 0.5
        done
        ;;
    esac
    wait $pid
    code=$?
    tried=$((tried + 1))
    if [ $code -gt 1 ] || grep -q panicked said; then
        echo "FAILED with exit code $code: $line"
        cat said
        failures=$((failures + 1))
    fi
}

@LINES@
exec 8>&-
wait
echo "$tried tried, $failures failed"
[ $failures -eq 0 ]
