//! The agent on programs that compute: windows, priorities, and what is left when it ends.

use crate::{alone, run};

/// A stopped task gets no processor, and goes on when the mode ends. Daemons are left alone.
#[test]
fn tasks_stand_still_in_windows_and_daemons_do_not() {
    let _alone = alone();
    run(r"
        busy; task=$busy
        # A daemon by its name, and its task.
        cp /bin/sh pvmd3; ./pvmd3 -c './sh2 & while :; do :; done' 2> errors & daemon=$!
        tern cosched explicit --run 1ms --stop 60s $task $daemon > said
        until_ 'stands $task'
        runs $daemon
        is_in_group $task; isnt is_in_group $daemon
        is $(nice_of $task) -20; is $(nice_of $daemon) 0
        tern cosched status --json | grep -q '.mode.:.explicit.'
        tern cosched none $task
        runs $task
        isnt is_in_group $task; is $(nice_of $task) 0
        tern cosched off");
}

/// A task that executes a daemon's program is none any more.
#[test]
fn a_task_that_becomes_a_daemon_is_let_go() {
    let _alone = alone();
    run(r"
        cp /bin/sh pvmd3; echo 'while :; do :; done' > loop
        sh -c 'until [ -e go ]; do sleep 0.02; done; exec ./pvmd3 loop' & late=$!
        tern cosched prio $late > said; is $(nice_of $late) -20
        touch go; until_ 'is $(nice_of $late) 0 && isnt is_in_group $late'
        is $(cat /proc/$late/comm) pvmd3");
}

/// With a share for local work, tasks come first for a part of the time, and compete as before in
/// the rest.
#[test]
fn local_work_has_its_turns() {
    let _alone = alone();
    run(r"
        nice -n 5 sh -c 'while :; do :; done' & busy=$!
        for mode in prio priospin 'explicit --run 90ms --stop 10ms'; do
            tern cosched $mode --local-share 50% $busy > said
            for turn in 1 2 3; do
                until_ '[ $(nice_of $busy) = -20 ]'; until_ '[ $(nice_of $busy) = 5 ]'
            done
        done
        until_ '[ $(nice_of $busy) = -20 ]'; kill -9 $(agent)
        until_ no_guardian; is $(nice_of $busy) 5
        tern cosched explicit --local-share 10% $busy > said
        until_ '[ $(count) -gt 5 ]'; is $(nice_of $busy) -20
        tern cosched off; is $(nice_of $busy) 5
        isnt tern cosched spin --local-share 10% $busy");
}

/// A guardian takes the agent's doings back when the agent is killed, also if the first guardian
/// was killed before.
#[test]
fn nothing_stays_stopped_or_preferred_when_the_agent_is_killed() {
    let _alone = alone();
    run(r"
        nice -n 5 sh -c 'while :; do :; done' & busy=$!
        tern cosched explicit --run 1ms --stop 60s $busy > said
        until_ 'stands $busy'
        first=$(guardian); kill -9 $first
        until_ 'isnt no_guardian && isnt is $(guardian) $first'
        is $(nice_of $busy) -20
        kill -9 $(agent); date +%s%N > killed
        until_ '[ $(nice_of $busy) = 5 ]'
        echo $((($(date +%s%N) - $(cat killed)) / 1000000)) ms
        runs $busy
        until_ 'isnt is_in_group $busy'; until_ no_guardian
        # Another agent takes its place.
        tern cosched prio $busy > said; is $(nice_of $busy) -20
        tern cosched off; is $(nice_of $busy) 5
");
}

/// A task that its user has stopped stays stopped, by windows and when they end.
#[test]
fn a_stop_by_the_user_stays_what_it_was() {
    let _alone = alone();
    run(r"
        busy; busy2=$busy; busy
        kill -STOP $busy; until_ '[ $(state_of $busy) = T ]'
        tern cosched explicit --run 5ms --stop 5ms $busy $busy2 > said
        until_ '[ $(count) -gt 20 ]'
        stands $busy; runs $busy2
        kill -STOP $busy2; until_ '[ $(state_of $busy2) = T ]'; stands $busy2
        tern cosched off
        stands $busy; stands $busy2
        is $(state_of $busy)$(state_of $busy2) TT
        kill -CONT $busy; runs $busy
");
}

/// A process that a task starts, or that is started by another, is of the job at once or soon, and
/// a mode ends with its job.
#[test]
fn descendants_belong_to_the_job_and_the_mode_ends_with_it() {
    let _alone = alone();
    run(r"
        echo 'echo $$ > child; while :; do :; done' > loop
        sh -c 'sh loop; true' & parent=$!
        until_ '[ -s child ]'; child=$(cat child)
        tern cosched prio $parent > said
        is $(nice_of $child) -20
        kill -9 $parent
        sleep 0.3; is $(nice_of $child) -20
        kill $child
        until_ no_agent
        tern cosched status --json | grep -qx '\[\]'");
}

/// An ordinary user can have windows. The command names the means that are missing.
#[test]
fn what_an_ordinary_user_lacks_is_said_and_the_rest_works() {
    let _alone = alone();
    let text = run(r"
        cp $(command -v tern) tern; chmod 755 tern
        cat > script <<'END'
        cd $1; . ./tools
        sh -c 'while :; do :; done' & busy=$!
        ./tern cosched explicit --run 1ms --stop 60s $busy > said 2>&1
        cat said
        until_ 'stands $busy'
        is $(state_of $busy) T
        ./tern cosched prio 1 2>&1 || true
        kill -9 $(pgrep -U nobody -f '^tern __cosched /')
        runs $busy
        kill -9 $busy
END
        declare -f until_ stands runs ticks state_of is fails > tools
        mkdir work; chmod 777 .
        setpriv --reuid 65534 --regid 65534 --clear-groups bash -e script $PWD
        ");
    for missing in ["real-time priority", "no freezer", "priority of tasks cannot be raised", "belongs to another user"]
    {
        assert!(text.contains(missing), "{missing}: {text}");
    }
}

/// A machine with version 1 of control groups alone, and one with neither freezer nor shares.
#[test]
fn older_machines_have_windows_too() {
    let _alone = alone();
    let text = run(r#"
        windows() {
            busy; mkdir $1; trap "kill -9 $busy" EXIT
            TERN_RUN=$PWD/$1 tern cosched explicit --run 1ms --stop 60s $busy > said 2>&1; cat said
            until_ 'stands $busy'; grep freezer /proc/$busy/cgroup
            kill -9 $(pgrep -f "^tern __cosched $PWD/$1"); runs $busy
        }
        export -f busy windows until_ fails stands runs ticks
        unshare -m bash -ec 'umount /sys/fs/cgroup/unified; windows first'
        echo second
        unshare -m bash -ec 'cd /sys/fs/cgroup; umount unified freezer cpu; cd - > /dev/null; windows second'"#);
    let (first, second) = text
        .split_once(
            "second
",
        )
        .unwrap();
    assert!(first.contains("freezer:/tern-cosched") && !first.contains("no freezer"), "{first}");
    assert!(second.contains("no freezer") && second.contains("no larger share"), "{second}");
}

/// Words that fit nothing are refused with a reason.
#[test]
fn wrong_orders_are_refused() {
    let _alone = alone();
    let text = run(r"
        busy
        tern cosched prio 2>&1 || echo $?
        tern cosched prio --stop 5ms $busy 2>&1 || echo $?
        tern cosched explicit --stop 999us $busy 2>&1 || echo $?
        tern cosched prio 99999999 2>&1 || echo $?
        tern gang $busy $busy --slice 1us 2>&1 || echo $?
        tern cosched often $busy 2>&1 | tail -1");
    let codes: Vec<&str> = text.lines().filter(|line| line.parse::<u8>().is_ok()).collect();
    assert_eq!(codes, ["2", "2", "2", "1", "1"], "{text}");
}
