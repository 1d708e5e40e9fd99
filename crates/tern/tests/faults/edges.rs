//! Edges (EPOLLET) that come while their process is on its way, or are to be told when that is
//! given up.

use crate::told::{self, Faults, Script};
use lab::Lab;

/// A program that waits for edges at a socket, whose other end stays at home. It says how many it
/// is told of each time that it is to look.
const SCRIPT: &str = r#"
cd $(mktemp -d)
python3 -c "
import os, select, socket, time
listener, parent = socket.create_server(('127.0.0.1', 0)), os.getpid()
if os.fork() == 0:
    peer, n = socket.create_connection(listener.getsockname()), 0
    listener.close()
    while os.getppid() == parent:
        time.sleep(0.002)
        if os.path.exists(f'send{n}'):
            peer.send(b'x'); open(f'sent{n}', 'w').close(); n += 1
    os._exit(0)
s, _ = listener.accept()
listener.close()
edges = select.epoll()
edges.register(s, select.EPOLLIN | select.EPOLLET)
for n in range(99):
    while not os.path.exists(f'look{n}'): time.sleep(0.002)
    print(len(edges.poll(0.1)), flush=True)" & pid=$!
while read -r line; do eval "$line"; done
kill $pid
"#;

struct Edges {
    script: Script,
    sent: u32,
    looked: u32,
}

impl Edges {
    fn start(lab: &Lab) -> Edges {
        Edges { script: Script::start(lab, SCRIPT), sent: 0, looked: 0 }
    }

    fn send(&mut self) {
        let n = self.sent;
        self.sent += 1;
        self.script.tell(&format!("touch send{n}; until [ -e sent{n} ]; do sleep 0.002; done; echo sent"));
        assert_eq!(self.script.line(), "sent");
    }

    /// How many edges it is told of.
    fn look(&mut self) -> String {
        self.script.tell(&format!("touch look{}", self.looked));
        self.looked += 1;
        self.script.line()
    }

    fn move_to(&mut self, place: &str) -> String {
        self.script.tell(&format!("tern move $pid {place} --how stop > /dev/null 2>&1 && echo moved || echo stays"));
        self.script.line()
    }
}

/// Where a process goes that has been looked at already, and what hangs then on which node.
const WAYS: [(&str, &str, &str); 4] =
    [("n2", "n1", "pages"), ("n3", "n2", "send there"), ("home", "n3", "send there"), ("n2", "n1", "pages")];

#[test]
fn what_comes_on_the_way_is_told_once_and_nothing_else() {
    let lab = told::lab(3);
    let mut edges = Edges::start(&lab);
    edges.send();
    assert_eq!(edges.look(), "1");
    for (place, node, phase) in WAYS {
        let faults = Faults::of(&lab, node);
        faults.set(&format!("{phase}:hang"));
        edges.script.tell(&format!("tern move $pid {place} --how stop > /dev/null && echo moved & mover=$!"));
        faults.await_met();
        edges.send();
        faults.end();
        edges.script.tell("wait $mover");
        assert_eq!(edges.script.line(), "moved", "to {place}");
        assert_eq!([edges.look(), edges.look()], ["1", "0"], "to {place}");
    }
    // Told before, and not before, and nothing on the way.
    for place in ["n3", "home", "n2", "home"] {
        assert_eq!(edges.move_to(place), "moved");
        assert_eq!(edges.look(), "0", "to {place}");
    }
    for place in ["n3", "n2", "home"] {
        edges.send();
        assert_eq!(edges.move_to(place), "moved");
        assert_eq!([edges.look(), edges.look()], ["1", "0"], "to {place}");
    }
}

#[test]
fn who_stays_after_all_is_told_what_it_was_not() {
    let lab = told::lab(3);
    let mut edges = Edges::start(&lab);
    let tries = [
        ("n2", [("n1", "rebuild"), ("n1", "commit"), ("n2", "rebuild there")]),
        ("home", [("n2", "send there"), ("n1", "fill"), ("n1", "take descriptors")]),
    ];
    for (place, faults) in tries {
        for (node, phase) in faults {
            for untold in [true, false] {
                if untold {
                    edges.send();
                }
                let faults = Faults::of(&lab, node);
                faults.set(&format!("{phase}:error"));
                assert_eq!(edges.move_to(place), "stays", "{phase}");
                assert!(faults.is_met());
                let expected = if untold { "1" } else { "0" };
                assert_eq!([edges.look().as_str(), edges.look().as_str()], [expected, "0"], "{phase}");
            }
        }
        assert_eq!(edges.move_to(place), "moved");
    }
}
