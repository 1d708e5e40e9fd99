# Descriptors go from home to a placed program and back.
python3 home.py > home.out & home=$!
until [ -S rights ]; do sleep 0.05; done
$RUN python3 away.py
echo "away: $?"
wait $home
echo "home: $?"
cat home.out
