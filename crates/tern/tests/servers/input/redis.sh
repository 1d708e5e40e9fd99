# A database in memory, with a counter that is checked.
$RUN redis-server --port $PORT --save '' --unixsocket r.socket > log 2>&1 &
until redis-cli -p $PORT ping 2>/dev/null; do sleep 0.1; done
$RUN redis-cli -p $PORT set counter 0
redis-benchmark -p $PORT -n 1000 -c 20 -q incr counter > bench1 & one=$!
$ELSEWHERE redis-benchmark -p $PORT -n 500 -c 10 -P 5 -q incr counter > bench2
wait $one
$ELSEWHERE redis-cli -p $PORT get counter
$RUN redis-cli -s r.socket get counter
redis-cli -p $PORT shutdown nosave
wait %1
echo $?
