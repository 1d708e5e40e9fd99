# Functions of all scripts. A job works in the present directory: each of its tasks writes its
# process id to task.INDEX, the first one writes how far it is to `rounds`, and all end when there
# is a file `end`.
export TERN_QUIET=1 PVM_ROOT=/usr/lib/pvm3 PVM_ALLOW_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# until_ CONDITION: waits for it.
until_() {
    local tries=0
    until eval "$1"; do
        sleep 0.02; tries=$((tries + 1))
        if [ $tries -gt 2000 ]; then
            echo "in vain: $1"; tail -5 errors; tail -5 refused; tern ps; tern log -n 20; kill $(jobs -p); exit 9
        fi
    done 2> /dev/null
}
round() { cat rounds 2> /dev/null || echo 0; }
has_begun() { until_ "[ \$(cat task.* | wc -l) = $1 ]"; }
goes_on() { local before=$(round); until_ "[ \$(round) -gt $((before + 2)) ]"; }

# wander SECONDS MOVES NODE...: moves each task in turn to one of these nodes, chosen by chance, for
# so long, or until so many moves were made. Counts the moves in `moves`; reasons for moves that
# were not made are in the file `refused`.
wander() {
    local limit=$(($(date +%s) + $1)) most=$2 task pid to
    shift 2
    declare -A at
    moves=0
    touch refused
    while [ $(date +%s) -lt $limit ]; do
        for task in task.*; do
            pid=$(cat $task)
            to=${@:$((RANDOM % $# + 1)):1}
            [ $to = "${at[$task]:-home}" ] && continue
            if tern move $pid $to > /dev/null 2>> refused; then
                at[$task]=$to
                moves=$((moves + 1))
                [ $moves -ge $most ] && return
            fi
            [ $(date +%s) -ge $limit ] && return
        done
    done
}

# job COMMAND...: starts a job in the background.
job() { timeout -s KILL $((${limit:-170} - 10)) "$@" > said 2> errors < /dev/null & job=$!; }
# ends: lets the job end. Prints its status, what it said last, its errors, and the moves.
ends() {
    touch end
    wait $job; echo "status $?"
    tail -1 said; cat errors
    echo "$moves moves"
    sed 's/[0-9]\+/N/g' refused | sort | uniq -c
}
