# A web server, and a client of home's.
mkdir www && head -c 3000000 /dev/urandom > www/big && echo hello > www/index.html
$RUN python3 -u -m http.server --bind 127.0.0.1 -d www $PORT > log 2>&1 &
until curl -sf http://127.0.0.1:$PORT/; do sleep 0.1; done
curl -s http://127.0.0.1:$PORT/big | cmp - www/big && echo same
$RUN curl -s http://127.0.0.1:$PORT/big | cmp - www/big && echo same
for i in 1 2 3 4 5 6; do curl -s http://127.0.0.1:$PORT/ & done > all
wait $(jobs -p | tail -n +2)
sort all | uniq -c
ss -tln | grep -c ":$PORT "
kill $!; kill %1; wait %1
echo $?
