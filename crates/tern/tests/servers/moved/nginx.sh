# Clients of a web server are moved: of two workers, which stay on another node, because they share
# memory with their master.
mkdir www && head -c 1500000 /dev/urandom > www/f && chmod -R a+rX .
cat > conf <<C
worker_processes 2; daemon off; pid $PWD/pid; error_log $PWD/errors; user nobody nogroup;
events { worker_connections 256; }
http { access_log off; sendfile on; tcp_nopush on; client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2;
       fastcgi_temp_path $PWD/t3; uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5; server { listen 127.0.0.1:$PORT; root $PWD/www; } }
C
at=http://127.0.0.1:$PORT/f
tern run --on n2 -- nginx -c $PWD/conf > log 2>&1 < /dev/null & server=$!
until_ 'curl -sf $at -o got'
# One reads slowly, so that it is moved while it reads; one reads many by one connection.
again 1 curl -sSf --limit-rate 1M $at --next -sSf $at > slow 2>> failed & clients=$!
again 2 curl -sSf --limit-rate 20M -o got.#1 "$at?[1-20]" 2>> failed & clients="$clients $!"
moves_on $TIME
for file in got*; do cmp $file www/f || echo $file; done
for file in $(seq $((2 * $(cat runs.1)))); do cat www/f; done | cmp - slow && echo same
kill -QUIT $(cat pid); wait $server; echo "ended $?"
cat errors
tells
