# Functions of the scripts beside this one, which also have those of ../../parallel/tools.sh.
export PATH=$PATH:/usr/sbin

# task INDEX PID: this process is moved from now on.
task() { echo $2 > draft.$1; mv draft.$1 task.$1; }

# again INDEX COMMAND...: runs a client over and over until there is a file `end`. Each run is a
# task of this index. Writes how many runs there were to runs.INDEX, and each bad status to `failed`.
again() {
    local index=$1 runs=0
    shift
    until [ -e end ]; do
        "$@" & task $index $!
        wait $! || echo "$1 ended with status $?" >> failed
        runs=$((runs + 1))
    done
    echo $runs > runs.$index
}

# moves_on SECONDS: moves all tasks for so long, and until LEAST moves were made, however slow this
# machine is; then has the clients end.
moves_on() {
    local all=0 seconds=$1 turns=0
    while [ $turns = 0 ] || [ $all -lt $LEAST -a $turns -lt 60 ]; do
        wander $seconds 1000 n2 n3 n4 home
        all=$((all + moves)) seconds=1 turns=$((turns + 1))
    done
    moves=$all
    touch end
    wait $clients
}

# tells: what failed, how many moves were made, and why others were not.
tells() {
    cat failed 2> /dev/null
    echo "$moves moves"
    sed 's/[0-9]\+/N/g' refused | sort | uniq -c
}
