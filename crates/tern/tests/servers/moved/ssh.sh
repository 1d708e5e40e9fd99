# An ssh server, two sessions and their clients are moved: one session takes data there and back,
# the other one, on a terminal, answers lines. Then the moved server takes a connection.
mkdir -p /run/sshd; ssh-keygen -q -t ed25519 -N "" -f key
cat > conf <<C
ListenAddress 127.0.0.1:$PORT
HostKey $PWD/key
AuthorizedKeysFile $PWD/key.pub
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin yes
PidFile none
C
/usr/sbin/sshd -D -e -f conf > log 2>&1 < /dev/null & server=$!
SSH="ssh -x -q -F none -p $PORT -i key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
until_ '$SSH 127.0.0.1 true'
head -c 2000000 /dev/urandom > data
mkfifo in out copy typed
$SSH 127.0.0.1 "cd $PWD; echo \$PPID > session; sha256sum < copy > there & tee copy; wait" < in > out 2> errors & client=$!
sha256sum < out > back & clients=$!
{ until [ -e end ]; do cat data; sleep 0.05; done; } | tee in | sha256sum > sent & clients="$clients $! $client"
$SSH -tt 127.0.0.1 "stty -echo -onlcr; cd $PWD; echo \$PPID > terminal; while read line; do echo \"\$line and back\"; done" \
    < typed > answered 2>> errors & typing=$!
{ until_ '[ -s terminal ]'; line=0; until [ -e end ]; do echo $((line += 1)); sleep 0.02; done; printf "\004"; } > typed & clients="$clients $! $typing"
until_ '[ -s session ] && [ -s answered ]'
task 0 $server; task 1 $client; task 2 $(cat session); task 3 $typing; task 4 $(cat terminal)
moves_on $TIME
cmp sent there && cmp sent back && echo same; cat errors
seq $(wc -l < answered) | sed 's/$/ and back/' | cmp - answered && echo answered
tern move $server n2 > /dev/null 2>&1
$SSH 127.0.0.1 'exit 7'; echo "status $?"
kill $server; wait $server; echo "ended $?"
tells
