# A database with processes and memory that they share: made, served, measured and ended.
BIN=$(ls -d /usr/lib/postgresql/*/bin | tail -1); D=/tmp/pg$PORT; rm -rf $D; mkdir $D; chown postgres:postgres $D; cd $D
AS="setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=$D LC_ALL=C"
$AS $RUN $BIN/initdb -D $D/data -A trust -U me > init 2>&1; echo made $?; grep -c ok init
$AS $RUN $BIN/postgres -D $D/data -k $D -p $PORT > log 2>&1 & server=$!
until $BIN/pg_isready -q -h 127.0.0.1 -p $PORT -U me -d postgres; do kill -0 $server || exit; sleep 0.1; done
at="-h 127.0.0.1 -p $PORT -U me"
$BIN/createdb $at bench; $BIN/pgbench $at -i -s 1 -q bench > /dev/null 2>&1; echo filled $?
$BIN/pgbench $at -c 4 -j 2 -t 50 bench 2> /dev/null | grep -E 'processed|failed'
$BIN/psql $at -At bench -c 'select count(*) from pgbench_history; select sum(abalance) = (select sum(tbalance) from pgbench_tellers) from pgbench_accounts'
$AS $RUN $BIN/pgbench -h $D -p $PORT -U me -S -c 2 -t 50 bench 2> /dev/null | grep -E 'processed|failed'
kill -INT $server; wait $server; echo ended $?; grep -E 'PANIC|ERROR' log; grep -c 'database system is shut down' log; rm -rf $D/data
