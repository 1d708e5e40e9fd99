# A server, and clients of three kinds, are moved: replies come in order, and each increment counts
# once.
redis-server --port $PORT --save '' --unixsocket r.socket > log 2>&1 < /dev/null & server=$!
cli="redis-cli -p $PORT"
until_ '$cli ping | grep -q PONG'
mkfifo commands
$cli < commands > replies 2> errors & pipe=$!
{ until [ -e end ]; do printf 'incr piped\n%.0s' {1..20}; sleep 0.01; done; } > commands & clients="$! $pipe"
again 1 redis-benchmark -p $PORT -n 4000 -c 20 -P 4 -q incr measured > measured 2>&1 & clients="$clients $!"
again 2 redis-cli -s r.socket -r 400 lpush listed 0123456789 > listed 2>&1 & clients="$clients $!"
task 0 $server; task 3 $pipe
moves_on $TIME
seq $(wc -l < replies) | cmp - replies && echo "in order"
[ $($cli get piped) = $(wc -l < replies) ] && [ $(wc -l < replies) -gt 20 ] && echo "piped"
[ $($cli get measured) = $((4000 * $(cat runs.1))) ] && echo "measured"
[ $($cli llen listed) = $((400 * $(cat runs.2))) ] && grep -v '^$' listed | cmp - <(seq $((400 * $(cat runs.2)))) && echo "listed"
cat errors; grep -i error measured
$cli shutdown nosave; wait $server; echo "ended $?"
tells
