# Three panes, each with a terminal of its own.
export TMUX_TMPDIR=/tmp TERM=xterm; T="$RUN tmux -L s$PORT -f /dev/null"
$T new-session -d -x 80 -y 24 'env -u BASH_ENV PS1="> " bash --norc --noprofile'; echo $?
$T split-window -h cat; $T split-window -v 'env PS1="$ " sh'
$T list-panes -F '#{pane_index} #{pane_width}x#{pane_height}'
# shows PANE PATTERN TIMES: until so many lines of it match.
shows() { until [ "$($T capture-pane -p -t $1 | grep -c "$2")" = $3 ]; do sleep 0.05; done; }
# What is typed before the shell asks for it stands elsewhere on the screen.
shows 0 '^> *$' 1; shows 2 '^\$ *$' 1
$T send-keys -t 0 'echo $((6 * 7))' Enter; $T send-keys -t 1 typed Enter; $T send-keys -t 2 'stty size; echo "e"nd' Enter
shows 0 ^42 1; shows 1 typed 2; shows 2 ^end 1
for pane in 0 1 2; do
    $T capture-pane -p -t $pane | grep -vE '^[>$]? ?$'
done
$T kill-server; echo $?
