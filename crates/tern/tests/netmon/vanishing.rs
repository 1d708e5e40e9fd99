//! Things that vanish, or may not be seen: each is said in words, and the rest goes on.

use crate::{Recording, detail, on_first};

#[test]
fn a_process_that_ends_and_an_interface_that_vanishes_stop_nothing() {
    let text = on_first(
        r#"
        cat > open.py <<'END'
import os, socket, time
server = socket.create_server(("127.0.0.1", 0))
open("draft", "w").close(); os.rename("draft", "ready")
time.sleep(60)
END
        python3 open.py & job=$!
        until_ '[ -e ready ]'
        ip link add vanishing0 type veth peer name vanishing1
        tern netmon -t 3 --json -p $job -p no-such-program vanishing0 lo never0 > said & netmon=$!
        until_ 'grep -q "\"name\":\"vanishing0\"" said && grep -q "127.0.0.1:.* listens" said'
        ip link del vanishing0; kill $job
        wait $netmon; cat said"#,
    );
    let recording = Recording::read(&text);
    let sockets = recording.objects("socket", |_| true);
    assert!(recording.gone(sockets[0]).unwrap().ends_with("(python3) has ended"));
    let devices = recording.objects("device", |object| object["name"] == "vanishing0");
    assert_eq!(recording.gone(devices[0]), Some("the interface has vanished"));
    let notes = recording.notes();
    let said = |part: &str| notes.iter().any(|note| note.contains(part));
    assert!(said("interface vanishing0 has vanished") && said("find interface never0"), "{notes:?}");
    assert!(said("no process no-such-program now") && said("no task and no daemon of PVM"), "{notes:?}");
    // netmon went on to its end.
    let others = recording.objects("device", |object| object["name"] == "lo");
    assert_eq!((others.len(), recording.gone(others[0])), (1, None));
    assert!(recording.of_type("end").next().unwrap()["elapsed_us"].as_u64() >= Some(3_000_000));
}

#[test]
fn a_user_sees_sockets_and_is_told_what_is_hidden() {
    let text = on_first(
        r#"
        cat > open.py <<'END'
import os, socket, time
server = socket.create_server(("127.0.0.1", 0))
open("draft", "w").write(str(server.getsockname()[1])); os.rename("draft", "port")
time.sleep(60)
END
        python3 open.py & job=$!
        until_ '[ -e port ]'
        echo "port $(cat port)"
        user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        echo "-- all"; user tern netmon -t 0.5 --rt --json
        echo "-- named"; user tern netmon -t 0.5 -p $job --json
        kill $job"#,
    );
    let port = text.lines().find_map(|line| line.strip_prefix("port ")).unwrap();
    let [all, named] = [1, 2].map(|n| Recording::read(text.split("-- ").nth(n).unwrap()));
    let own = format!("127.0.0.1:{port}");
    let listening = all.objects("socket", |object| detail(object, "local") == Some(&own) && object["pid"].is_null());
    assert_eq!(listening.len(), 1);
    assert!(all.notes().iter().any(|note| note.contains("processes cannot be read (not root?)")), "{:?}", all.notes());
    assert!(all.notes().iter().any(|note| note.contains("--rt has no effect")), "{:?}", all.notes());
    assert_eq!(named.objects("socket", |_| true), [0; 0]);
    let is_told = |note: &&str| note.contains("its descriptors cannot be read: only root and its user may");
    assert!(named.notes().iter().any(is_told), "{:?}", named.notes());
    // Neither may its memory be read, if it is a task of PVM.
    let is_told = |note: &&str| note.contains("Permission denied") && note.ends_with("its messages are not counted");
    assert!(named.notes().iter().any(is_told), "{:?}", named.notes());
    assert!(all.notes().iter().any(|note| note.contains("if they are tasks of PVM")), "{:?}", all.notes());
}

/// Processes of another user that pose as daemons of PVM: one names a program to be executed, and
/// has a log that is a pipe; the other one has taken rights of several users.
#[test]
fn a_process_that_poses_as_a_daemon_gets_nothing() {
    let text = on_first(
        r#"
        user="setpriv --reuid 65534 --regid 65534 --clear-groups"
        mkdir -m 777 own; cp $(readlink -f $(type -P sleep)) own/pvmd; mkdir -p own/evil/lib
        printf '#!/bin/sh\nid > %s/executed\n' $PWD/own > own/evil/lib/pvm; chmod 755 own/evil/lib/pvm own/pvmd
        export PVM_TMP=$PWD/own
        $user mkfifo own/pvml.pipe; touch own/pvml.file
        PVM_ROOT=$PWD/own/evil $user own/pvmd 60 3<> own/pvml.pipe & one=$!
        PVM_ROOT=$PWD/own/evil setpriv --ruid 65534 own/pvmd 60 3>> own/pvml.file & two=$!
        for pid in $one $two; do until_ "readlink /proc/$pid/exe | grep -q pvmd"; done
        echo "one $one"; echo "two $two"
        tern netmon -t 2 -p $one -p $two --json
        ls own/executed 2> /dev/null && echo executed
        kill $one $two"#,
    );
    let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let recording = Recording::read(&text);
    let notes = recording.notes();
    for pid in [number("one "), number("two ")] {
        let is_told = |note: &&str| note.starts_with(&format!("PVM daemon {pid}: cannot"));
        assert!(notes.iter().any(is_told), "{notes:?}");
    }
    assert!(!text.lines().any(|line| line == "executed"));
    assert!(recording.of_type("end").next().unwrap()["slow"]["samples"].as_u64() > Some(20));
}
