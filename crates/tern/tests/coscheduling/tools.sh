# Functions of all scripts. A ring of tasks works in the present directory: each of its tasks writes
# its process id to task.INDEX, the first one writes how far it is to `rounds`, and all end when
# there is a file `end`.
export PVM_ROOT=/usr/lib/pvm3 PVM_ALLOW_ROOT=1 PVM_TMP=$PWD UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1

trap 'echo "line $LINENO: $BASH_COMMAND" >&2' ERR
# What is left holds the output open, which the test reads to its end.
trap 'status=$?; set +e; tern cosched off; kill -9 $(jobs -p) > /dev/null 2>&1; exit $status' EXIT
fails() { echo "in vain: $1" >&2; tail -n 5 errors >&2; exit 9; }
# until_ CONDITION: waits for it.
until_() {
    local tries=0
    until eval "$1" 2> /dev/null; do
        sleep 0.02; tries=$((tries + 1))
        if [ $tries -gt 2000 ]; then fails "$1"; fi
    done
}
round() { cat rounds 2> /dev/null || echo 0; }
has_begun() { until_ "[ \$(cat task.* | wc -l) = $1 ]"; }
goes_on() { local before=$(round); until_ "[ \$(round) -gt $((before + 2)) ]"; }
job() { timeout -s KILL 160 "$@" > said 2> errors < /dev/null & job=$!; }
ends() { touch end; wait $job; echo "status $?"; tail -1 said; cat errors; echo "0 moves"; }

# busy: starts a process that computes, $busy.
busy() { sh -c 'while :; do :; done' & busy=$!; }
ticks() { cut -d' ' -f14 /proc/$1/stat; }
runs() { local before=$(ticks $1); until_ "[ \$(ticks $1) -gt $before ]"; }
# stands PID: it has got no processor for 0.3 s.
stands() { local before=$(ticks $1); sleep 0.3; [ $(ticks $1) = $before ]; }
nice_of() { cut -d' ' -f19 /proc/$1/stat; }
state_of() { cut -d' ' -f3 /proc/$1/stat; }
# count: how often windows were switched.
count() { tern cosched status --json | sed 's/.*count.:\([0-9]*\).*/\1/'; }
agent() { pgrep -f '^tern __cosched /' || true; }
guardian() { pgrep -f '^tern __cosched-guardian' || true; }
is_in_group() { grep -q tern-cosched /proc/$1/cgroup; }
is() { [ "$1" = "$2" ]; }
isnt() { ! "$@"; }
no_agent() { [ -z "$(agent)" ]; }
no_guardian() { [ -z "$(guardian)" ]; }
