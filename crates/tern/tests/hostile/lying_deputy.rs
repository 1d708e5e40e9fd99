//! A deputy is its user's own process, and may lie in all that it says. (guests of the attacks:
//! attackers/liar.py)

use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::process::{Child, ChildStdout};

use lab::Lab;

use crate::caller::run_request;
use crate::support::{PYTHON, Victim, alone, at_home, nobody_is_away, script, shared, wait_for};

/// An attacker that runs at home, as nobody.
struct Liar {
    process: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Liar {
    fn start(lab: &Lab, mode: &str, body: &str, victim: &Victim) -> Liar {
        let (request, program) = run_request(body);
        let victim = victim.pid.to_string();
        let liar = script("liar.py");
        let words = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--", PYTHON];
        let words = [&words[..], &[liar.as_str(), mode, &request, &program, &victim]].concat();
        let mut process = lab.spawn("n1", words).unwrap();
        let says = BufReader::new(process.stdout.take().unwrap()).lines();
        Liar { process, says }
    }

    /// The next line that begins with this word.
    fn says(&mut self, word: &str) -> String {
        let mut said = Vec::new();
        for line in self.says.by_ref().map_while(Result::ok) {
            if line.starts_with(word) {
                return line;
            }
            said.push(line);
        }
        let mut errors = String::new();
        let _ = self.process.stderr.take().unwrap().read_to_string(&mut errors);
        panic!("it never said {word}: {said:?} {errors}")
    }

    fn number(&mut self, word: &str) -> i32 {
        self.says(word).split(' ').nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// After an attack all goes on: others' processes, and those who are honest.
fn all_goes_on(lab: &Lab, victim: &Victim) {
    assert!(victim.is_well());
    assert_eq!(at_home(lab, "as_nobody tern run --on n2 -- echo honest").text(), "honest");
}

/// Each lie, with a body that has the deputy asked for it.
#[test]
fn lies_harm_nobody_else() {
    let _alone = alone();
    let lab = shared();
    let victim = Victim::start(&lab, 1002);
    let lies = [
        ("naked", "sleep 1000"),
        ("foreign", "sleep 1000"),
        ("garbage", "sleep 1000"),
        ("child", "sleep 1000 & wait"),
        ("privileged-child", "sleep 1000 & wait"),
        ("thread", "exec /usr/bin/python3 -c 'import threading; threading.Thread(target=print).start(); input()'"),
    ];
    for (mode, body) in lies {
        let mut liar = Liar::start(&lab, mode, body, &victim);
        liar.says("ready");
        if mode == "privileged-child" {
            let child = liar.number("child");
            wait_for("the lie to be found out", || nobody_is_away(&lab));
            // By its number in the node: the lab's processes are this machine's, too.
            assert!(lab.exec("n1", ["test", "-d", &format!("/proc/{child}")]).unwrap().status.success(), "{mode}");
        }
        wait_for(mode, || nobody_is_away(&lab));
        all_goes_on(&lab, &victim);
    }
}

/// A deputy that becomes a set-user-ID program is not filled with its body's memory, which is its
/// user's.
#[test]
fn a_deputy_that_executes_is_not_filled() {
    let _alone = alone();
    let lab = shared();
    let victim = Victim::start(&lab, 1002);
    let mut liar = Liar::start(&lab, "gone", "while :; do :; done", &victim);
    let number = liar.number("ready");
    let comm = || lab.exec("n1", ["cat", &format!("/proc/{number}/comm")]).unwrap().text();
    wait_for("the deputy to become another program", || comm() == "passwd");
    let moved = at_home(&lab, &format!("as_nobody tern move {number} home; tern move {number} home; echo"));
    let errors = moved.errors();
    // Its memory is no deputy's any more: so it is a process of home for `tern move`.
    let is_refused = ["not trusted", "deputy", "runs on n1 already"].iter().any(|why| errors.contains(why));
    assert!(is_refused, "{errors}");
    assert_eq!(comm(), "passwd", "it is what it was");
    all_goes_on(&lab, &victim);
}

/// Nor do its new rights become its body's.
#[test]
fn a_deputy_that_executes_gives_no_rights() {
    let _alone = alone();
    let lab = shared();
    let victim = Victim::start(&lab, 1002);
    let place = at_home(&lab, "echo hidden > secret; chmod 600 secret; pwd").text();
    let place = place.trim();
    // Nothing is forked: only the call that sets ids is lied about.
    let program = "import os; open(\"began\", \"w\"); os.setuid(os.getuid()); seen = open(\"secret\").read(); open(\"said\", \"w\").write(seen)";
    let body = format!("cd {place} && exec {PYTHON} -c '{program}' 2> errors");
    let mut liar = Liar::start(&lab, "ids", &body, &victim);
    liar.says("ready");
    wait_for("the body to run", || at_home(&lab, &format!("ls {place}")).text().contains("began"));
    wait_for("the lie to be found out", || nobody_is_away(&lab));
    let said = at_home(&lab, &format!("ls {place}; cat {place}/said {place}/errors")).text();
    assert!(said.contains("began") && !said.contains("hidden"), "{said}");
    all_goes_on(&lab, &victim);
}
