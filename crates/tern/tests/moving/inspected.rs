//! Whom another process holds, or looks into, is where that one is: both go home, whatever rooms
//! they are in.

use crate::{at_home, shared};

const LOOKED_INTO: &str = r#"
import ctypes, os, sys
data = ctypes.create_string_buffer(b"what it is", 11)
print(os.getpid(), ctypes.addressof(data), flush=True)
sys.stdin.readline()
print(data.value.decode())
"#;

const LOOKS: &str = r#"
import ctypes, os, sys
sys.stdin.readline()
libc = ctypes.CDLL(None, use_errno=True)
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
pid, address = (int(word) for word in open("said").read().split())
seen = ctypes.create_string_buffer(11)
def call(how):
    own, theirs = Part(ctypes.addressof(seen), 11), Part(address, 11)
    return how(pid, ctypes.byref(own), 1, ctypes.byref(theirs), 1, 0)
print(call(libc.process_vm_readv), seen.value.decode())
seen.value = b"what it was"[:10]
print(call(libc.process_vm_writev))
"#;

fn looks_from(node: &str) -> String {
    let script = format!(
        r#"
        cat > looked.py <<'END'{LOOKED_INTO}END
        cat > looks.py <<'END'{LOOKS}END
        mkfifo in go; rm -f said
        is_away() {{ tern ps | awk -v pid=$1 '$1 == pid {{ found = 1 }} END {{ exit !found }}'; }}
        tern run --on n2 python3 looked.py < in > said & first=$!
        exec 3> in; until_ '[ -s said ]'
        tern run --on {node} python3 looks.py < go & second=$!
        exec 4> go; until_ "is_away $second"
        echo >&4; wait $second; if is_away $first; then echo away; else echo home; fi
        echo >&3; wait $first; tail -n 1 said"#
    );
    at_home(&shared(), &script).text()
}

/// (Failed before: what was read was the deputy's memory, without a word.)
#[test]
fn who_looks_from_another_node_finds_the_process_itself() {
    assert_eq!(looks_from("n3"), "11 what it is\n11\nhome\nwhat it wa");
}

/// The kernel of their node serves them.
#[test]
fn two_of_one_node_need_not_go_home() {
    assert_eq!(looks_from("n2"), "11 what it is\n11\naway\nwhat it wa");
}

/// As gdb begins its program, which has a pipe in common with others of the room.
#[test]
fn a_child_of_vfork_is_held_by_its_parent() {
    let text = at_home(
        &shared(),
        r#"
        command -v gdb > /dev/null || { echo absent; exit 0; }
        tern run --on n2 bash -c 'gdb -q -batch -ex run -ex "info inferiors" --args /bin/sh -c "echo it runs" | cat' | grep -c 'it runs'"#,
    )
    .text();
    assert!(text == "absent" || text == "1", "{text}");
}
