# Clients are moved while they work with a database: one at home, then one on another node. (The
# server's processes have shared memory of home's, or share memory, and stay where they are.)
BIN=$(ls -d /usr/lib/postgresql/*/bin | tail -1); D=$(mktemp -d); chown postgres:postgres $D
AS="setpriv --reuid=postgres --regid=postgres --clear-groups env -C $D HOME=$D LC_ALL=C"
$AS $BIN/initdb -D $D/data -A trust -U me --no-sync > init 2>&1; echo "made $?"
at="-h 127.0.0.1 -p $PORT -U me"
ask() { $BIN/psql $at -At bench -c "$1"; }
LONG="copy (select n, md5(n::text) from generate_series(1, 20000) n) to stdout"
done=0
uses() {
    rm -f end task.* runs.* measured errors
    $AS $1 $BIN/postgres -D $D/data -k $D -p $PORT > log 2>&1 < /dev/null & server=$!
    until_ '$BIN/pg_isready -q $at -d postgres'
    [ $done != 0 ] || { $BIN/createdb $at bench; $BIN/pgbench $at -i -s 1 -q bench > filled 2>&1; echo "filled $?"; ask "$LONG" > long; }
    again 1 $BIN/pgbench $at -c 3 -j 1 -n -T 1 bench >> measured 2>> errors & clients=$!
    again 2 $BIN/pgbench -h $D -p $PORT -U me -c 1 -n -T 1 bench >> measured 2>> errors & clients="$clients $!"
    again 3 $BIN/psql $at -At bench -c "$LONG" > copied 2>> errors & clients="$clients $!"
    moves_on $((TIME / 2))
    done=$((done + $(sed -n 's/.*actually processed: \([0-9]*\).*/\1/p' measured | tr '\n' '+') 0))
    for run in $(seq $(cat runs.3)); do cat long; done | cmp - copied && echo copied
    [ "$(ask 'select count(*) from pgbench_history')" = $done ] && echo counted
    ask 'select (select sum(abalance) from pgbench_accounts) = sum(delta), (select sum(tbalance) from pgbench_tellers) = sum(delta),
             (select sum(bbalance) from pgbench_branches) = sum(delta) from pgbench_history'
    grep 'failed transactions' measured | grep -v ': 0 '; cat errors
    kill -INT $server; wait $server; echo "ended $?"; grep -E 'PANIC|ERROR' log
}
uses ''; all=$moves
uses 'tern run --on n2 --'; moves=$((all + moves))
rm -rf $D
tells
