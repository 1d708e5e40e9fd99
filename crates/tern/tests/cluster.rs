//! Clusters of real daemons on loopback addresses.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use support::{Node, cluster, eventually, exists, founder, temp};

#[test]
fn five_nodes_form_a_cluster_and_any_member_invites() {
    let keep = temp();
    let mut nodes = cluster(&keep, 4);
    let mut n5 = Node::new(&keep, "n5");
    assert!(n5.join(&nodes[3].invite(&[]), 5).status.success());
    n5.start(&[]);
    nodes.push(n5);
    nodes.iter().for_each(|n| n.sees_alive(&["n1", "n2", "n3", "n4", "n5"]));
    for node in &nodes {
        let rows = eventually("loads of all nodes have come", || {
            let rows = node.json(&["nodes", "--json"]);
            rows.as_array().unwrap().iter().all(|r| r["load"]["cores"].as_u64() > Some(0)).then_some(rows)
        });
        let here: Vec<_> = rows.as_array().unwrap().iter().filter(|r| r["here"] == true).collect();
        assert_eq!((here.len(), here[0]["name"].as_str()), (1, Some(node.name.as_str())));
    }
    let text = nodes[0].ok(&["nodes"]);
    assert!(text.contains("n1 *") && text.lines().count() == 6, "{text}");
}

#[test]
fn a_killed_daemon_is_seen_as_down_and_comes_back() {
    let keep = temp();
    let mut nodes = cluster(&keep, 3);
    nodes[2].kill();
    nodes[..2].iter().for_each(|n| n.sees_alive(&["n1", "n2"]));
    assert_eq!(nodes[0].names("down"), ["n3"]);
    let refused = nodes[0].fails(&["run", "--on", "n3", "--", "true"]);
    assert!(refused.contains("node n3 is down") && refused.contains("hint:"), "{refused}");
    nodes[2].start(&[]);
    nodes.iter().for_each(|n| n.sees_alive(&["n1", "n2", "n3"]));
}

#[test]
fn the_whole_cluster_may_go_down_and_come_back() {
    let keep = temp();
    let mut nodes = cluster(&keep, 3);
    nodes.iter_mut().for_each(Node::kill);
    // The last ones first: nobody depends on the founder.
    for node in nodes.iter_mut().rev() {
        node.start(&[]);
    }
    nodes.iter().for_each(|n| n.sees_alive(&["n1", "n2", "n3"]));
}

#[test]
fn tokens_admit_once_and_in_time() {
    let keep = temp();
    let n1 = founder(&keep, "n1");
    let token = n1.invite(&[]);
    let refusal = |name: &str, token: &str| {
        let output = Node::new(&temp(), name).join(token, 9);
        assert!(!output.status.success(), "{name} was admitted");
        String::from_utf8(output.stderr).unwrap()
    };
    // A name that is taken does not use the invitation up.
    assert!(refusal("n1", &token).contains("living node"), "taken name");
    // The secret is 53 to 78 characters from the end; behind it is the authority's fingerprint.
    let mut forged = token.clone().into_bytes();
    let at = forged.len() - 60;
    forged[at] = if forged[at] == b'a' { b'b' } else { b'a' };
    let forged = String::from_utf8(forged).unwrap();
    assert!(refusal("x1", &forged).contains("its secret is wrong"), "forged");
    assert!(refusal("x1", "tern1-nonsense").contains("invitation is not valid"), "nonsense");
    assert!(Node::new(&temp(), "n2").join(&token, 2).status.success());
    assert!(refusal("n3", &token).contains("used already"), "used");
    let expired = n1.invite(&["--minutes", "0"]);
    assert!(refusal("n3", &expired).contains("expired"), "expired");
    assert!(refusal("n2", &n1.invite(&[])).contains("has not come yet"), "given to another");
}

#[test]
fn a_node_invited_without_the_authority_cannot_invite() {
    let keep = temp();
    let n1 = founder(&keep, "n1");
    let mut n2 = Node::new(&keep, "n2");
    // The token may also come by standard input.
    let token = n1.invite(&["--without-authority"]);
    let mut joining = n2.command(&["join", "-", "--name", "n2", "--addr", "127.0.0.2:0"]);
    let mut joining = joining.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap();
    writeln!(joining.stdin.take().unwrap(), "{token}").unwrap();
    assert!(joining.wait().unwrap().success());
    assert!(!exists(n2.state().join("authority.key")));
    n2.start(&[]);
    n2.sees_alive(&["n1", "n2"]);
    let refused = n2.fails(&["invite"]);
    assert!(refused.contains("authority's key"), "{refused}");
}

#[test]
fn who_leaves_is_forgotten() {
    let keep = temp();
    let mut nodes = cluster(&keep, 3);
    nodes[1].ok(&["leave"]);
    assert!(nodes[1].ended(), "ternd ends after tern leave");
    assert!(!exists(nodes[1].state().join("node.key")));
    for node in [&nodes[0], &nodes[2]] {
        node.sees_alive(&["n1", "n3"]);
        assert_eq!(node.names("down"), Vec::<String>::new(), "{} lists the one who left", node.name);
    }
    let mut again = Node::new(&temp(), "n2");
    assert!(again.join(&nodes[2].invite(&[]), 2).status.success(), "the name is free again");
    again.start(&[]);
    nodes[0].sees_alive(&["n1", "n2", "n3"]);
}

#[test]
fn another_clusters_node_is_refused() {
    let keep = temp();
    let n1 = founder(&keep, "n1");
    let foreign = Node::new(&keep, "stranger");
    foreign.ok(&["init", "--name", "n2", "--addr", "127.0.0.8:0"]);
    // It knows where n1 is, and says so to its own daemon.
    let member = serde_json::json!([{ "name": "n1", "id": 1, "address": n1.address(), "generation": 1 }]);
    std::fs::write(foreign.state().join("members.json"), member.to_string()).unwrap();
    let mut foreign = foreign;
    foreign.start(&[]);
    eventually("n1 was asked and refused", || {
        let refused = foreign.log().lines().filter(|l| l.contains("cannot reach node n1")).count();
        (refused > 1).then_some(())
    });
    assert_eq!(n1.names("alive"), ["n1"]);
    assert_eq!(foreign.names("alive"), ["n2"]);
}

#[test]
fn garbage_closes_its_connection_and_nothing_else() {
    let keep = temp();
    let mut nodes = cluster(&keep, 2);
    let address = nodes[0].address();
    let mut noise = vec![0u8; 4096];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    let preamble = |kind| {
        let mut bytes = b"tern\x01\x00".to_vec();
        bytes.extend([kind, 0]);
        bytes.resize(32, 0);
        bytes
    };
    for hello in [Vec::new(), preamble(1), preamble(2), preamble(3), preamble(4), preamble(9)] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = stream.write_all(&[hello, noise.clone()].concat());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        // Closed or reset, perhaps after a TLS alert; never left open.
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 1, 24, 25, 41, 100, 1400, 4000] {
        udp.send_to(&noise[..length], address).unwrap();
    }
    let control = nodes[0].run_dir().join("ternd.sock");
    for bytes in [&noise[..1], &noise[..4000], &[1, 200], &[9]] {
        let socket = packet::connect(&control).unwrap();
        packet::send(&socket, bytes, &[]).unwrap();
        let answer = packet::receive(&socket, 1 << 16).unwrap().bytes;
        assert_eq!(answer.first(), Some(&0xC0), "a refusal in words");
    }
    assert!(nodes[0].is_serving());
    nodes[1].sees_alive(&["n1", "n2"]);
}

#[test]
fn a_program_comes_sealed() {
    use std::os::fd::AsFd as _;
    let keep = temp();
    let n1 = founder(&keep, "n1");
    let run = control_protocol::codec::encode(
        &control_protocol::tool::Request::Run {
            on: None,
            movable: false,
            any_cpu: false,
            as_root: false,
            force: false,
            homecoming: Default::default(),
            kind: Default::default(),
        },
        100,
    )
    .unwrap();
    let refusal = |descriptors: &[std::os::fd::BorrowedFd<'_>]| {
        let socket = packet::connect(&n1.run_dir().join("ternd.sock")).unwrap();
        packet::send(&socket, &run, descriptors).unwrap();
        match control_protocol::tool::Assembly::default()
            .take(&packet::receive(&socket, 1 << 16).unwrap().bytes)
            .unwrap()
        {
            Some(control_protocol::tool::Answer::Failed { reason, .. }) => reason,
            answer => panic!("{answer:?}"),
        }
    };
    let (file, pipe) = (std::fs::File::open("/etc/passwd").unwrap(), std::io::pipe().unwrap());
    assert!(refusal(&[file.as_fd()]).contains("sealed memfd"));
    assert!(refusal(&[pipe.0.as_fd()]).contains("sealed memfd"));
    assert!(refusal(&[]).contains("descriptor must come"));
    assert!(refusal(&[file.as_fd(), pipe.0.as_fd()]).contains("descriptor must come"));
}

#[test]
fn users_ask_but_do_not_administer() {
    let keep = temp();
    let nodes = cluster(&keep, 2);
    support::make_passable(keep.path());
    let as_nobody = |args: &[&str]| nodes[0].command(args).uid(65534).gid(65534).output().unwrap();
    assert!(as_nobody(&["nodes"]).status.success());
    assert!(as_nobody(&["ps"]).status.success());
    for args in [["invite"].as_slice(), &["leave"], &["log"], &["why", "1"]] {
        let output = as_nobody(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("is for root"), "{args:?}: {error}");
    }
    assert!(nodes[0].ok(&["why", "1"]).contains("runs here"));
    assert_eq!(std::fs::read_dir(nodes[0].state().join("invites")).unwrap().count(), 0);
}

#[test]
fn doctor_tests_a_pair() {
    let keep = temp();
    let mut nodes = cluster(&keep, 2);
    let findings = nodes[0].json(&["doctor", "n2", "--json"]);
    let grade = |findings: &serde_json::Value, subject: &str| {
        let found = findings.as_array().unwrap().iter().find(|f| f["subject"] == subject).unwrap().clone();
        (found["grade"].as_str().unwrap().to_owned(), found["detail"].as_str().unwrap().to_owned())
    };
    for subject in ["TCP", "UDP", "clock", "CPU", "PIDs", "rooms"] {
        assert_eq!(grade(&findings, subject).0, "good", "{subject}");
    }
    // The same node with a wrong clock and without places is no target, in words.
    nodes[1].kill();
    nodes[1].start_ahead(25, &["--rooms", "0"]);
    nodes[0].sees_alive(&["n1", "n2"]);
    let skewed = nodes[0].tern(&["doctor", "n2", "--json"]);
    assert_eq!(skewed.status.code(), Some(1));
    let findings: serde_json::Value = serde_json::from_slice(&skewed.stdout).unwrap();
    assert_eq!(grade(&findings, "clock").0, "costs");
    assert!(grade(&findings, "clock").1.starts_with("+2"), "{findings}");
    assert!(grade(&findings, "verdict").1.contains("accepts no guests"), "{findings}");
}

#[test]
fn a_first_cluster_says_what_to_do_next() {
    let keep = temp();
    let n1 = founder(&keep, "n1");
    let refused = n1.fails(&["invite"]);
    assert!(
        refused.contains("others cannot reach this node at 127.0.0.1") && refused.contains("--listen"),
        "{refused}"
    );
    let findings = n1.json(&["doctor", "n1", "--json"]);
    assert_eq!(findings[0]["detail"], "n1 is this node");
    assert!(findings.as_array().unwrap().iter().any(|f| f["subject"] == "/dev/fuse"), "{findings}");
    support::make_passable(keep.path());
    // Where the device is root's alone, another user learns that it is there.
    let as_nobody = n1.command(&["doctor"]).uid(65534).gid(65534).output().unwrap();
    let shown = String::from_utf8(as_nobody.stdout).unwrap();
    let fuse = shown.lines().find(|line| line.starts_with("/dev/fuse")).unwrap();
    let verdict = shown.lines().find(|line| line.starts_with("verdict")).unwrap();
    assert!(!fuse.contains("load the module") && !verdict.contains("cannot host"), "{shown}");
}

#[test]
fn a_daemon_in_the_background_and_a_membership_without_one() {
    let keep = temp();
    let node = Node::new(&keep, "n1");
    let said = node.ok(&["init", "--name", "n1", "--addr", "127.0.0.1:0", "--detach"]);
    assert!(said.contains("n1 at 127.0.0.1:0 is the first") && said.contains("ternd serves (PID"), "{said}");
    let pid = node.json(&["status", "--json"])["pid"].as_i64().unwrap();
    assert!(said.contains(&format!("(PID {pid})")), "{said}");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session: i64 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().parse().unwrap();
    assert_eq!(session, pid, "it leads a session of its own");
    let again = node.fails(&["daemon", "--detach"]);
    assert!(again.contains("another ternd already serves"), "{again}");
    // SAFETY: a plain system call; the process is the daemon that was just started.
    assert_eq!(unsafe { libc::kill(i32::try_from(pid).unwrap(), libc::SIGKILL) }, 0);
    eventually("it is dead", || (!node.tern(&["status"]).status.success()).then_some(()));
    let refused = node.fails(&["leave"]);
    assert!(refused.contains("nobody can tell the other nodes") && refused.contains("tern leave --force"), "{refused}");
    node.ok(&["leave", "--force"]);
    assert!(!exists(node.state().join("node.key")) && !exists(node.state().join("listen")));
    let refused = node.fails(&["daemon", "--detach"]);
    assert!(refused.contains("this machine is in no cluster"), "{refused}");
    assert!(node.ok(&["daemon", "--unit"]).contains("/tern daemon\n"));
}

#[test]
fn run_says_why_not() {
    let keep = temp();
    let n1 = founder(&keep, "n1");
    let status = |args: &[&str]| {
        let output = n1.tern(args);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(status(&["run", "--", "no-such-program"]), (Some(127), "tern: no-such-program: not found\n".into()));
    let (code, words) = status(&["run", "--", "/etc/passwd"]);
    assert!(code == Some(126) && words.contains("cannot be executed: Permission denied"), "{words}");
    let (code, words) = status(&["run", "--on", "n7", "--", "true"]);
    assert!(code == Some(125) && words.contains("no node n7; known: n1") && words.contains("tern nodes"), "{words}");
    let (code, words) = status(&["run", "--", "true"]);
    assert!(code == Some(125) && words.contains("n1 is alone"), "{words}");
    let (code, words) = status(&["run", "--on", "n1", "--", "true"]);
    assert_eq!((code, words.as_str()), (Some(0), ""), "home is a node like others");
    let stopped = Node::new(&keep, "n2");
    let output = stopped.tern(&["nodes"]);
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && words.contains("cannot reach ternd") && words.contains("is ternd running"),
        "{words}"
    );
}

#[test]
fn one_daemon_a_run_directory() {
    let keep = temp();
    let n1 = founder(&keep, "n1");
    let second = n1.tern(&["daemon"]);
    assert!(!second.status.success());
    assert!(String::from_utf8(second.stderr).unwrap().contains("another ternd already serves"));
    let present = n1.fails(&["init"]);
    assert!(present.contains("already holds the identity of node n1") && present.contains("tern leave"), "{present}");
}
