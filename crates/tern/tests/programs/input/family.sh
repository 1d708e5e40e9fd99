# Pipelines, subshells, here-documents, traps, jobs, substitutions, and how children end.
seq 2000 | sort -rn | head -3 | tr '\n' ' '; echo
(exit 4); echo "subshell $?"
sh -c 'kill -TERM $$'; echo "killed $?"
trap 'echo trapped' USR1
kill -USR1 $$
(kill -USR1 $$; exit 0); echo "after $?"
trap 'echo child ended' CHLD
/bin/true
trap - CHLD
cat <<END
here $((6 * 7))
END
cat <(echo substituted)
x=$(for i in 1 2 3; do echo "$i" & wait $!; done); echo $x
sleep 100 & kill $!; wait $!; echo "waited $?"
sh -c 'exec sh -c "echo executed; exit 6"'; echo "exec $?"
timeout 0.2 sleep 100; echo "timeout $?"
nohup sh -c 'kill -HUP $$; echo survives' 2>/dev/null
seq 12 | xargs -P4 -n3 sh -c 'exit 0'; echo "xargs $?"
wait; echo end
exit 9
