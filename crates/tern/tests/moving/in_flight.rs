//! Descriptors that come with a message at the very moment at which their receiver leaves.

use crate::{at_home, shared};

const RECEIVES: &str = r#"
import array, os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('s'); open('ready', 'w').close()
lost = 0
while True:
    message, control, flags, _ = s.recvmsg(16, socket.CMSG_SPACE(4))
    if message == b'end': break
    fds = array.array('i')
    for _, _, data in control: fds.frombytes(data)
    if len(fds) != 1 or fds[0] < 0 or os.read(fds[0], 16) != message: lost += 1
    for fd in fds: os.close(fd)
print(lost, 'lost')
"#;

const SENDS: &str = r#"
import array, os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect('s'); n = 0
while not os.path.exists('enough'):
    n += 1; message = b'%d' % n
    r, w = os.pipe(); os.write(w, message); os.close(w)
    s.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [r]))]); os.close(r)
s.send(b'end')
"#;

/// One in four moves lost one.
#[test]
fn descriptors_are_not_lost_on_the_way() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"
        cat > receives.py <<'END'{RECEIVES}END
        cat > sends.py <<'END'{SENDS}END
        python3 receives.py > said & pid=$!
        until_ '[ -e ready ]'
        python3 sends.py & sender=$!
        for i in $(seq 25); do tern move $pid n2 && tern move $pid home || break; done
        touch enough; wait $sender; wait $pid; cat said"#
        ),
    )
    .text();
    assert_eq!(text, "0 lost");
}
