//! Tools for many nodes: copies, ends of machines, and who of home may use which node.

use std::io::{BufRead, BufReader, Write};

use lab::Lab;

use crate::common::{self, eventually};
use crate::{at_home, lab, local};

fn must(lab: &Lab, node: &str, words: &[&str]) -> String {
    let output = lab.exec(node, words).unwrap();
    assert!(output.status.success(), "{words:?}: {}", output.errors());
    output.text()
}

const AS_USER: [&str; 4] = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];

#[test]
fn files_go_to_nodes_without_programs_and_back() {
    let lab = lab(4);
    must(
        &lab,
        "n1",
        &[
            "sh",
            "-c",
            "mkdir -p /tmp/job/deep && seq 100000 > /tmp/job/deep/data && chmod 750 /tmp/job/deep && ln -s deep/data /tmp/job/link",
        ],
    );
    let refused = at_home(&lab, &["tern", "cp", "/tmp/job", "n[2-4]:/tmp"]);
    assert!(!refused.status.success() && refused.errors().contains("-r copies"), "{}", refused.errors());
    must(&lab, "n1", &["tern", "cp", "-r", "/tmp/job", "n[2-4]:/tmp"]);
    let data = std::fs::read(lab.root("n1").unwrap().join("tmp/job/deep/data")).unwrap();
    for node in ["n2", "n3", "n4"] {
        let there = lab.root(node).unwrap().join("tmp/job");
        assert!(std::fs::read(there.join("deep/data")).unwrap() == data, "{node}");
        assert_eq!(std::fs::read_link(there.join("link")).unwrap().to_str(), Some("deep/data"));
        std::fs::write(there.join("result"), node).unwrap();
    }
    must(&lab, "n1", &["tern", "cp", "all:/tmp/job/result", "/tmp/out"]);
    let out = lab.root("n1").unwrap().join("tmp/out");
    let read = |node: &str| std::fs::read_to_string(out.join(node).join("result")).unwrap();
    assert_eq!(["n2", "n3", "n4"].map(read), ["n2", "n3", "n4"]);
    must(&lab, "n1", &["tern", "cp", "n3:/tmp/job/result", "/tmp/one"]);
    assert_eq!(must(&lab, "n1", &["cat", "/tmp/one"]), "n3");
    // A node that refuses costs itself alone, and so does a file that is not there.
    must(&lab, "n3", &["tern", "policy", "set", "local-by=none"]);
    std::fs::remove_file(lab.root("n4").unwrap().join("tmp/job/result")).unwrap();
    let part = at_home(&lab, &["tern", "cp", "n[2,4]:/tmp/job/result", "/tmp/part"]);
    assert_eq!(part.status.code(), Some(1));
    assert!(
        part.errors().contains("/tmp/job/result: No such file") && part.errors().contains("n4: not copied"),
        "{}",
        part.errors()
    );
    assert_eq!(must(&lab, "n1", &["cat", "/tmp/part/n2/result"]), "n2");
}

/// A node of a lab is a PID namespace, so that reboot(2) ends the node alone (pid_namespaces(7)).
#[test]
fn a_node_halts_when_its_guests_have_left() {
    let lab = lab(3);
    let here = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let there = std::fs::read_link(lab.root("n2").unwrap().join("proc/1/ns/pid")).unwrap();
    assert_ne!(here, there, "reboot(2) would end this machine");
    let mut guest = lab.spawn("n1", ["tern", "run", "--on", "n2", "--", "cat"]).unwrap();
    writeln!(guest.stdin.as_mut().unwrap(), "before").unwrap();
    let mut said = BufReader::new(guest.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "before");
    let refused = at_home(&lab, &["tern", "halt", "--now", "-y", "n2"]);
    assert!(!refused.status.success() && refused.errors().contains("admin-by=n1"), "{}", refused.errors());
    let unasked = at_home(&lab, &["tern", "halt", "n2"]);
    assert!(!unasked.status.success() && unasked.errors().contains("--yes"), "{}", unasked.errors());
    for node in ["n2", "n3"] {
        must(&lab, node, &["tern", "policy", "set", "admin-by=n1"]);
    }
    let own = at_home(&lab, &["tern", "halt", "-y", "home"]);
    assert!(own.errors().contains("it is this machine"), "{}", own.errors());
    must(&lab, "n1", &["tern", "halt", "-y", "n2"]);
    let state =
        |node: &str| must(&lab, "n1", &["tern", "nodes"]).lines().find(|l| l.starts_with(node)).map(str::to_owned);
    eventually("the node to be down", || state("n2").is_some_and(|line| line.contains("down")));
    writeln!(guest.stdin.as_mut().unwrap(), "after").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "after");
    drop(guest.stdin.take());
    assert!(guest.wait().unwrap().success());
    must(&lab, "n1", &["tern", "reboot", "-y", "n3"]);
    eventually("the node to be down", || state("n3").is_some_and(|line| line.contains("down")));
}

#[test]
fn home_says_who_may_use_a_node() {
    let lab = lab(4);
    for (node, changes) in [("n2", "mode=0"), ("n3", "owner=1000,mode=0100"), ("n4", "group=1000,mode=0010")] {
        must(&lab, "n1", &["tern", "nodes", "--set", changes, node]);
    }
    let run = |user: &[&str], node: &str| {
        let words = ["tern", "run", "--quiet", "--on", node, "--strict", "--", "/bin/true"];
        at_home(&lab, &[user, &words].concat())
    };
    let denied = run(&AS_USER, "n2");
    assert!(!denied.status.success());
    assert!(
        denied.errors().contains("user 1000 may not use node n2") && denied.errors().contains("0000"),
        "{}",
        denied.errors()
    );
    assert!(run(&AS_USER, "n3").status.success() && run(&AS_USER, "n4").status.success());
    assert!(run(&["setpriv", "--reuid=1001", "--regid=1001", "--clear-groups"], "n3").errors().contains("may not use"));
    assert!(run(&[], "n2").status.success(), "root may");
    // `all` stands for those that the user may use; a group for its nodes.
    let names = |words: &[&str]| {
        let output = at_home(&lab, words);
        assert!(output.status.success(), "{words:?}: {}", output.errors());
        let mut names: Vec<String> = output.text().lines().map(str::to_owned).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(names(&[&AS_USER[..], &["tern", "sh", "all", "--", "hostname"]].concat()), "n3 n4");
    assert_eq!(names(&["tern", "sh", "@1000", "--", "hostname"]), "n4");
    // Nobody but root says so; nothing is guessed; a daemon that starts again knows.
    let user = at_home(&lab, &[&AS_USER[..], &["tern", "nodes", "--set", "mode=0111", "n2"]].concat());
    assert!(user.errors().contains("for root"), "{}", user.errors());
    for wrong in ["mode=9", "owner=nobody-of-this-name", "colour=red", "state=gone"] {
        assert!(!at_home(&lab, &["tern", "nodes", "--set", wrong, "n2"]).status.success(), "{wrong}");
    }
    must(&lab, "n1", &["tern", "nodes", "--set", "mode=0111,state=unavailable", "n2"]);
    assert!(run(&AS_USER, "n2").errors().contains("unavailable"));
    assert!(must(&lab, "n1", &["tern", "nodes"]).contains("unavailable"));
    let rows = must(&lab, "n1", &["tern", "nodes", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let n3 = rows.as_array().unwrap().iter().find(|row| row["name"] == "n3").unwrap();
    assert_eq!((n3["rights"]["owner"].as_u64(), n3["rights"]["mode"].as_u64()), (Some(1000), Some(0o100)));
    assert_eq!(local(&lab, "n3", &["hostname"]).text(), "n3");
}

/// Two homes whose processes have the same PIDs, and users the same numbers, on one node at once.
#[test]
fn a_node_serves_several_homes_at_once() {
    let mut options = common::options(3);
    options.whole = true;
    let lab = common::lab_of(&options);
    must(&lab, "n3", &["tern", "policy", "set", "local-by=n1,n2"]);
    // The kernel of each home is told which number comes next.
    let begin = |home: &str, pid: i32, how: &str| {
        let program = "sh -c 'echo $$; while read -r x; do echo $x; done'";
        let script =
            format!("echo {} > /proc/sys/kernel/ns_last_pid; tern run --on n3 {how} -- {program}; exit $?", pid - 1);
        let mut child = lab.spawn(home, ["sh", "-c", &script]).unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), pid.to_string());
        (child, said)
    };
    let kinds = [(20_000, ""), (20_100, "--local"), (20_200, ""), (20_300, "--local"), (20_400, "")];
    let mut held: Vec<_> =
        kinds.iter().flat_map(|(pid, how)| ["n1", "n2"].map(|home| begin(home, *pid, how))).collect();
    let text = |node: &str, words: &[&str]| must(&lab, node, words);
    let guests = text("n3", &["tern", "guests", "--json"]);
    assert_eq!(["n1", "n2"].map(|home| guests.matches(&format!("\"{home}\"")).count()), [5, 5], "{guests}");
    for home in ["n1", "n2"] {
        let shown = text(home, &["tern", "ps"]);
        assert_eq!(shown.lines().filter(|line| line.contains("n3")).count(), 5, "{shown}");
    }
    for (at, (child, said)) in held.iter_mut().enumerate() {
        writeln!(child.stdin.as_mut().unwrap(), "{at}").unwrap();
        assert_eq!(said.next().unwrap().unwrap(), at.to_string());
    }
    // A signal reaches the process of its own home alone.
    must(&lab, "n1", &["kill", "-TERM", "20000"]);
    assert!(!held[0].0.wait().unwrap().success());
    for (at, (child, said)) in held.iter_mut().enumerate().skip(1) {
        writeln!(child.stdin.as_mut().unwrap(), "{at}").unwrap();
        assert_eq!(said.next().unwrap().unwrap(), at.to_string());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "{at}");
    }
}
