# Two workers on one listener; files go out by sendfile(2).
mkdir www && head -c 200000 /dev/urandom > www/f && chmod -R a+rX . && cat > conf <<C
worker_processes 2; daemon off; pid $PWD/pid; error_log $PWD/errors; user nobody nogroup;
events { worker_connections 256; }
http { access_log off; sendfile on; tcp_nopush on; client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2; fastcgi_temp_path $PWD/t3;
       uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5; server { listen 127.0.0.1:$PORT; root $PWD/www; } }
C
$RUN nginx -c $PWD/conf > log 2>&1 &
until curl -sf http://127.0.0.1:$PORT/f -o got; do sleep 0.1; done
cmp got www/f && echo same
ab -q -n 400 -c 10 http://127.0.0.1:$PORT/f | grep -E "Complete|Failed|HTML transferred"
ab -q -k -n 200 -c 5 http://127.0.0.1:$PORT/f | grep -E "Complete|Failed|Keep-Alive requests"
kill -QUIT $(cat pid)
wait %1
echo $?
