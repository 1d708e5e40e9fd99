# A directory goes through a compressor and the network to another.
mkdir from to; for i in 1 2 3; do seq $i$i 20000 > from/f$i; done; ln -s f1 from/link; chmod 600 from/f2
$RUN sh -c "nc -l 127.0.0.1 $PORT | zstd -dq | tar x -C to" & other=$!
until ss -ltn | grep -q :$PORT; do sleep 0.05; done
$RUN sh -c "tar c -C from . | zstd -q | nc -N 127.0.0.1 $PORT"; wait $other; echo $?
diff -r from to && echo same; ls -l to | awk '{ print $1, $5, $9 }'
