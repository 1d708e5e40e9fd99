# Three panes, each with a terminal of its own.
export TMUX_TMPDIR=/tmp TERM=xterm; T="$RUN tmux -L s$PORT -f /dev/null"
$T new-session -d -x 80 -y 24 'env -u BASH_ENV PS1="> " bash --norc --noprofile'; echo $?
$T split-window -h cat; $T split-window -v 'env PS1="$ " sh'
$T list-panes -F '#{pane_index} #{pane_width}x#{pane_height}'
$T send-keys -t 0 'echo $((6 * 7))' Enter; $T send-keys -t 1 typed Enter; $T send-keys -t 2 'stty size; echo "e"nd' Enter
for wanted in '0 ^42' '1 typed' '2 ^end'; do
    until $T capture-pane -p -t ${wanted% *} | grep -q "${wanted#* }"; do sleep 0.05; done
    $T capture-pane -p -t ${wanted% *} | grep -vE '^[>$]? ?$'
done
$T kill-server; echo $?
