//! Real labs: what a node sees, how commands end, links, limits, and that nothing is left behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Lab, LabName, Options};

/// Long enough for anything on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn bare(nodes: u32) -> Options {
    Options { daemons: false, ..common::options(nodes) }
}

fn up(options: &Options) -> Lab {
    common::lab_of(options)
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        sleep(Duration::from_millis(5));
    }
}

fn address(lab: &Lab, node: &str, port: u16) -> SocketAddr {
    (lab.state().node(node).unwrap().address, port).into()
}

/// Everything of a lab that this machine shows: processes, cgroups, files, mounts.
fn traces(name: &LabName) -> Vec<String> {
    let mut found = Vec::new();
    let mark = format!("tern-lab-{name}");
    let mut directories = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().contains(&mark) {
                found.push(entry.path().display().to_string());
            } else if entry.path().components().count() < 6 && entry.file_type().is_ok_and(|t| t.is_dir()) {
                directories.push(entry.path());
            }
        }
    }
    let state = PathBuf::from("/run/tern-lab").join(name.as_str());
    found.extend(state.exists().then(|| state.display().to_string()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|l| l.contains("tern-lab")).map(str::to_owned));
    found
}

fn listing(lab: &Lab, node: &str, path: &str) -> BTreeSet<String> {
    let output = lab.command("ls").args([node, path]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn names(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn what_a_node_sees() {
    let lab = up(&Options { foreign: vec!["n3".into()], ..bare(3) });
    assert_eq!(listing(&lab, "n2", "/"), names("bin dev etc home proc run sys tmp var"));
    assert_eq!(listing(&lab, "n2", "/bin"), names("tern tern-lab ternd"));
    assert_eq!(listing(&lab, "n2", "/etc"), names("hostname hosts"));
    let mut devices = names("fd full fuse null ptmx pts random shm stderr stdin stdout tty urandom zero");
    let those_that_are =
        ["userfaultfd", "cpu_dma_latency"].into_iter().filter(|name| Path::new("/dev").join(name).exists());
    devices.extend(those_that_are.map(str::to_owned));
    assert_eq!(listing(&lab, "n2", "/dev"), devices);
    assert_eq!(listing(&lab, "n3", "/"), names("bin dev etc home lib lib64 proc run sys tmp usr var"));
    assert!(fs::read_to_string(lab.root("n3").unwrap().join("etc/passwd")).unwrap().contains("stranger"));
    assert!(listing(&lab, "n2", "/sys/class/net").contains("eth0"));

    // n1 has this machine's programs and files, its own names, and private places.
    let script = "hostname; cat /etc/hostname; cat /proc/1/cmdline | tr '\\0' '\\n' | tail -1; touch /tmp/mark /run/mark /home/mark; ls /home";
    assert_eq!(lab.exec("n1", ["sh", "-c", script]).unwrap().text(), "n1\nn1\nn1\nmark");
    for place in ["/tmp/mark", "/run/mark", "/home/mark"] {
        assert!(!PathBuf::from(place).exists(), "{place} came out of n1");
        assert!(!listing(&lab, "n2", PathBuf::from(place).parent().unwrap().to_str().unwrap()).contains("mark"));
    }
    let release = |output: Vec<u8>| String::from_utf8(output).unwrap();
    let own = Command::new("cat").arg("/etc/os-release").output().unwrap();
    assert_eq!(release(lab.exec("n1", ["cat", "/etc/os-release"]).unwrap().stdout), release(own.stdout));

    // Namespaces are the node's own, all of them.
    let namespaces = |node: &str| {
        let pid = lab.state().node(node).unwrap().init.pid;
        let link = |kind: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
        ["mnt", "pid", "net", "uts", "ipc", "cgroup"].map(link)
    };
    let own =
        ["mnt", "pid", "net", "uts", "ipc", "cgroup"].map(|k| fs::read_link(format!("/proc/self/ns/{k}")).unwrap());
    for (i, (a, b)) in namespaces("n1").iter().zip(namespaces("n2")).enumerate() {
        assert!(*a != b && *a != own[i] && b != own[i]);
    }
}

#[test]
fn commands_end_as_they_ended() {
    let lab = up(&bare(1));
    let run = |script: &str| lab.exec("n1", ["sh", "-c", script]).unwrap();
    assert_eq!(run("exit 42").status.code(), Some(42));
    assert_eq!(run("kill -SEGV $$").status.signal(), Some(libc::SIGSEGV));
    assert_eq!(
        run("echo out; echo err >&2"),
        lab::Output { status: ExitStatusExt::from_raw(0), stdout: b"out\n".into(), stderr: b"err\n".into() }
    );
    let big = vec![b'x'; 3 << 20];
    assert_eq!(lab.exec_with("n1", ["cat"], &big).unwrap().stdout, big);
    assert_eq!(lab.exec("n1", ["no-such-program"]).unwrap().status.code(), Some(127));
    assert_eq!(lab.exec("n1", ["/etc/passwd"]).unwrap().status.code(), Some(126));
    assert_eq!(lab.in_node("n2", ["true"]).output().unwrap().status.code(), Some(125));

    // The terminal is kept.
    let tool = format!("{} lab --name {} exec n1 --", common::tern().display(), lab.state().options.name);
    let typed =
        |line: &str| Command::new("script").args(["-qec", line, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(typed(&format!("{tool} sh -c 'test -t 0 && test -t 1 && exit 21'")).status.code(), Some(21));

    // A signal to the tool is the command's, also one that it asks for at once; the command's
    // stopped children do not outlive it.
    for _ in 0..20 {
        let mut child =
            lab.spawn("n1", ["sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"]).unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        // SAFETY: a plain system call on a child that was not waited for yet.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        assert_eq!(child.wait().unwrap().code(), Some(9));
    }
    // The node's init reaps orphans.
    run("sh -c 'sleep 0.05 & exit' ; sleep 0.01 & true");
    wait_for("orphans to be reaped", || lab.processes("n1").unwrap().len() == 1);
}

/// Is a port of `to` that nobody listens on refused (reachable), or does the connection just hang
/// (cut)? Once it ended who had started the command, which does not care for the key.
#[test]
fn a_key_that_is_pressed_at_once_is_the_commands_alone() {
    let lab = up(&bare(1));
    for _ in 0..100 {
        let mut command = lab.in_node("n1", ["sh", "-c", "trap '' INT; kill -INT 0; exit 7"]);
        // SAFETY: system calls between fork and exec, on a set of this call's own. With one
        // processor the command often comes first.
        unsafe {
            command.process_group(0).pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                let mut here: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(libc::sched_getcpu() as usize, &mut here);
                match libc::sched_setaffinity(0, size_of_val(&here), &here) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        assert_eq!(command.status().unwrap().code(), Some(7));
    }
}

fn reaches(lab: &Lab, from: &str, to: &str, limit: Duration) -> bool {
    let target = address(lab, to, 9);
    let error = lab.in_network(from, || TcpStream::connect_timeout(&target, limit).unwrap_err()).unwrap();
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => true,
        std::io::ErrorKind::TimedOut => false,
        _ => panic!("not silent: {error}"),
    }
}

#[test]
fn nodes_have_directories_of_their_own_whatever_their_maker_has() {
    let lab = up(&bare(2));
    let mut shell = lab.in_node("n1", ["sh", "-c", "echo $TERN_STATE ${TERN_RUN-the usual}"]);
    let said = shell.env("TERN_STATE", "/nowhere").env("TERN_RUN", "/nowhere").output().unwrap();
    let state = lab.state().node("n1").unwrap().state_dir();
    assert_eq!(String::from_utf8_lossy(&said.stdout), format!("{state} the usual\n"));
}

#[test]
fn links_are_cut_and_healed() {
    let lab = up(&bare(3));
    let short = Duration::from_millis(300);
    for (a, b) in [("n1", "n2"), ("n2", "n3"), ("n3", "n1")] {
        assert!(reaches(&lab, a, b, DEADLINE));
    }
    // A connection and datagrams that exist already are cut as well, and survive.
    let place = address(&lab, "n3", 5000);
    let listener = lab.in_network("n3", || TcpListener::bind(place).unwrap()).unwrap();
    let server = lab.in_network("n3", || UdpSocket::bind(place).unwrap()).unwrap();
    let mut stream = lab.in_network("n2", || TcpStream::connect(place).unwrap()).unwrap();
    let client = lab.in_network("n2", || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(short)).unwrap();
    accepted.set_read_timeout(Some(short)).unwrap();
    let mut byte = [0];

    lab.cut("n2", "n3").unwrap();
    assert!(!reaches(&lab, "n2", "n3", short) && !reaches(&lab, "n3", "n2", short));
    assert!(reaches(&lab, "n1", "n2", DEADLINE) && reaches(&lab, "n1", "n3", DEADLINE));
    stream.write_all(b"x").unwrap();
    client.send_to(b"lost", place).unwrap();
    assert!(accepted.read(&mut byte).is_err() && server.recv(&mut byte).is_err());

    lab.heal("n3", "n2").unwrap();
    assert!(reaches(&lab, "n2", "n3", DEADLINE) && reaches(&lab, "n3", "n2", DEADLINE));
    accepted.set_read_timeout(Some(DEADLINE)).unwrap();
    server.set_read_timeout(Some(DEADLINE)).unwrap();
    accepted.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
    client.send_to(b"y", place).unwrap();
    server.recv(&mut byte).unwrap();
    assert_eq!(&byte, b"y", "the lost datagram stays lost");

    let refused = lab.command("cut").args(["n1", "n1"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
}

/// Sends `bytes` from one node to another; how long it took until all were there.
fn transfer(lab: &Lab, from: &str, to: &str, bytes: usize) -> Duration {
    let place = address(lab, to, 5001);
    let listener = lab.in_network(to, || TcpListener::bind(place).unwrap()).unwrap();
    let mut stream = lab.in_network(from, || TcpStream::connect(place).unwrap()).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let start = Instant::now();
    let sender = std::thread::spawn(move || stream.write_all(&vec![0; bytes]).unwrap());
    let mut all = Vec::new();
    accepted.read_to_end(&mut all).unwrap();
    sender.join().unwrap();
    assert_eq!(all.len(), bytes);
    start.elapsed()
}

#[test]
fn rate_and_delay_of_links() {
    let rated = up(&Options { rate_bits: Some(80_000_000), ..bare(2) });
    // 5 MB at 10 MB/s: half a second, but for the burst.
    let took = transfer(&rated, "n1", "n2", 5_000_000).max(transfer(&rated, "n2", "n1", 5_000_000));
    assert!((Duration::from_millis(430)..Duration::from_secs(5)).contains(&took), "{took:?}");
    drop(rated);

    // Odd nodes are near each other, and far from even ones.
    let far = up(&Options { trunk_bits: Some(80_000_000), ..bare(3) });
    let took = transfer(&far, "n1", "n2", 5_000_000).max(transfer(&far, "n2", "n3", 5_000_000));
    assert!((Duration::from_millis(430)..Duration::from_secs(5)).contains(&took), "{took:?}");
    let near = transfer(&far, "n1", "n3", 5_000_000);
    assert!(near < Duration::from_millis(400), "{near:?}");
    drop(far);

    let delayed = up(&Options { delay_us: Some(20_000), rate_bits: Some(800_000_000), ..bare(3) });
    let trip = || {
        let start = Instant::now();
        assert!(reaches(&delayed, "n2", "n3", DEADLINE));
        start.elapsed()
    };
    let least = (0..5).map(|_| trip()).min().unwrap();
    assert!((Duration::from_millis(40)..Duration::from_millis(400)).contains(&least), "round trip of {least:?}");
    transfer(&delayed, "n1", "n3", 2_000_000);
    delayed.cut("n2", "n3").unwrap();
    assert!(!reaches(&delayed, "n2", "n3", Duration::from_millis(300)));
}

#[test]
fn cpu_and_memory_limits() {
    let lab = up(&Options { cpus: Some(0.2), memory_bytes: Some(64 << 20), ..bare(2) });
    // 0.1 s of CPU time takes half a second of a fifth of a core.
    let start = Instant::now();
    let burn = "import time\nwhile time.process_time() < 0.1: pass";
    assert!(lab.exec("n1", ["python3", "-c", burn]).unwrap().status.success());
    assert!(start.elapsed() > Duration::from_millis(400), "took {:?}", start.elapsed());
    let hog = lab.exec("n1", ["python3", "-c", "print(len(bytearray(200 << 20)))"]).unwrap();
    assert_eq!(hog.status.signal(), Some(libc::SIGKILL), "{hog:?}");
}

#[test]
fn several_labs_and_nothing_left_behind() {
    let (first, second) = (up(&bare(2)), up(&bare(2)));
    let name = first.state().options.name.clone();
    assert!(!traces(&name).is_empty(), "the test looks in the wrong places");
    let twice = Lab::up(common::tern(), &Options { name: name.clone(), ..bare(2) }).unwrap_err();
    assert!(twice.to_string().contains("already up"), "{twice}");
    let pids: Vec<i32> = first.state().nodes.iter().map(|n| n.init.pid).chain([first.state().hub.pid]).collect();
    let busy = first.spawn("n1", ["sleep", "1000"]).unwrap();
    let sleeps = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    wait_for("the command to be in its node", || first.processes("n1").unwrap().iter().any(sleeps));
    first.down().unwrap();
    assert_eq!(traces(&name), Vec::<String>::new());
    for pid in pids {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
    assert_eq!(busy.wait_with_output().unwrap().status.signal(), Some(libc::SIGKILL));
    assert!(reaches(&second, "n1", "n2", DEADLINE), "the other lab is untouched");
    let name = second.state().options.name.clone();
    drop(second);
    assert_eq!(traces(&name), Vec::<String>::new());
}

#[test]
fn crashes_are_repaired() {
    // The hub dies: so do its nodes, and the next `up` clears away the rest.
    let options = bare(3);
    let lab = up(&options);
    let hub = lab.state().hub.pid;
    let inits: Vec<i32> = lab.state().nodes.iter().map(|n| n.init.pid).collect();
    // SAFETY: a plain system call; the hub is alive, as the lab is.
    unsafe { libc::kill(hub, libc::SIGKILL) };
    wait_for("the nodes to end with their hub", || {
        inits.iter().all(|pid| !PathBuf::from(format!("/proc/{pid}")).exists())
    });
    assert!(!traces(&options.name).is_empty());
    assert_eq!(lab.in_node("n1", ["true"]).output().unwrap().status.code(), Some(125));
    let again = up(&options);
    assert_ne!(again.state().hub.pid, hub);
    assert_eq!(again.exec("n1", ["hostname"]).unwrap().text(), "n1");
    again.down().unwrap();
    std::mem::forget(lab);
    assert_eq!(traces(&options.name), Vec::<String>::new());

    // `up` dies at any moment: the lab ends by itself or can be ended.
    for delay_ms in [0, 2, 4, 6, 8, 10, 13, 16, 20, 30, 50, 80, 120, 160] {
        let name = options.name.as_str();
        let mut tool = Command::new(common::tern());
        tool.args(["lab", "--name", name, "up", "--nodes", "3"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = tool.spawn().unwrap();
        sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let down = Command::new(common::tern()).args(["lab", "--name", name, "down"]).output().unwrap();
        assert!(down.status.success(), "{}", String::from_utf8_lossy(&down.stderr));
        wait_for("the rest to go", || traces(&options.name).is_empty());
    }
}

#[test]
fn many_nodes_are_quick() {
    for nodes in [16, 100] {
        let start = Instant::now();
        let lab = common::lab_of(&common::options(nodes));
        let took = start.elapsed();
        println!("{nodes} nodes: {} ms", took.as_millis());
        assert!(took < Duration::from_secs(120), "{took:?}");
        let last = format!("n{nodes}");
        assert!(reaches(&lab, &last, "n2", DEADLINE) && reaches(&lab, "n1", &last, DEADLINE));
    }
}

#[test]
fn up_means_that_every_daemon_lists_all_nodes_alive() {
    for nodes in [1, 5] {
        let lab = common::lab_of(&common::options(nodes));
        for node in &lab.state().nodes {
            let output = lab.exec(&node.name, ["tern", "nodes", "--json"]).unwrap();
            let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let seen: BTreeSet<(String, String)> = rows
                .as_array()
                .unwrap()
                .iter()
                .map(|row| (row["name"].as_str().unwrap().into(), row["state"].as_str().unwrap().into()))
                .collect();
            let all = (1..=nodes).map(|n| (format!("n{n}"), "alive".to_owned())).collect();
            assert_eq!(seen, all, "on {}", node.name);
        }
        let status = lab.command("status").output().unwrap();
        let line = format!("{nodes} of {nodes} nodes alive");
        assert!(String::from_utf8_lossy(&status.stdout).contains(&line), "{status:?}");
    }
}

#[test]
fn daemons_and_nodes_die_and_daemons_return() {
    let lab = common::lab_of(&common::options(3));
    let alive_on = |node: &str| {
        let output = lab.exec(node, ["tern", "status", "--json"]).unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (status["pid"].as_i64(), status["alive"].as_i64())
    };
    let (first, alive) = alive_on("n2");
    assert_eq!(alive, Some(3));
    lab.restart_daemon("n2").unwrap();
    let (second, _) = alive_on("n2");
    assert!(second.is_some() && second != first);
    wait_for("all nodes to see n2 again", || ["n1", "n2", "n3"].iter().all(|node| alive_on(node).1 == Some(3)));
    lab.kill_daemon("n3").unwrap();
    assert_eq!(alive_on("n3"), (None, None));
    lab.kill_node("n3").unwrap();
    wait_for("n3 to be missed", || ["n1", "n2"].iter().all(|node| alive_on(node).1 == Some(2)));
    assert_eq!(lab.in_node("n3", ["true"]).output().unwrap().status.code(), Some(125));
}

/// A process that serves a FUSE mount, waits in it, and does not answer: not even SIGKILL ends it.
const STUCK: &str = r#"
import ctypes, os, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("/tmp/m")
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
assert libc.mount(b"stuck", b"/tmp/m", b"fuse", 0, options) == 0, os.strerror(ctypes.get_errno())
def serve():
    unique = struct.unpack_from("<Q", os.read(device, 1 << 20), 8)[0]
    init = struct.pack("<IIIIHHI", 7, 31, 4096, 0, 16, 12, 4096) + bytes(40)
    os.write(device, struct.pack("<IiQ", 16 + len(init), 0, unique) + init)
    os.read(device, 1 << 20)
    print("stuck", flush=True)
    threading.Event().wait()
threading.Thread(target=serve).start()
os.stat("/tmp/m")
"#;

#[test]
fn what_hangs_in_fuse_is_ended_too() {
    let options = bare(2);
    let lab = up(&options);
    let mut child = lab.spawn("n1", ["/usr/bin/python3", "-c", STUCK]).unwrap();
    let mut line = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"stuck\n");
    let start = Instant::now();
    lab.down().unwrap();
    assert!(start.elapsed() > Duration::from_millis(900), "it did not hang, so nothing was tested");
    assert_eq!(traces(&options.name), Vec::<String>::new());
    child.wait().unwrap();
}

/// Failed once: the reader of a pipe had gone, and the tool panicked.
#[test]
fn who_is_read_no_more_says_nothing_of_it() {
    let _lab = up(&bare(2));
    let commands: [&[&str]; 5] = [
        &["lab", "status"],
        &["lab", "status", "--json"],
        &["completions", "bash"],
        &["sim", "seeds", "--count", "1"],
        &["sim", "cosched", "--nst", "100"],
    ];
    for command in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = Command::new(common::tern()).args(command).stdout(writer).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stderr), "", "{command:?}");
        // What only writes dies of the signal.
        assert!(done.status.success() || done.status.signal() == Some(libc::SIGPIPE), "{command:?}: {}", done.status);
    }
}

/// Failed once: the sinks of a measurement that was broken off listened for ever, and the next one
/// found their address in use.
#[test]
fn a_sink_ends_with_who_wanted_it() {
    let mut sink = Command::new(common::tern())
        .args(["bench", "sink", "--once", "127.0.0.1:0"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    drop(sink.stdin.take());
    let start = Instant::now();
    let ended = loop {
        match sink.try_wait().unwrap() {
            None if start.elapsed() < DEADLINE => sleep(Duration::from_millis(5)),
            ended => break ended,
        }
    };
    let _ = sink.kill();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}
