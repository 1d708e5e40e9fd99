//! What one user does must not keep another one waiting, nor take the memory of the machines.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use control_protocol::moves::MoveOptions;
use control_protocol::steward::{FromSteward, ToSteward};
use lab::Lab;

use crate::support::{PYTHON, alone, at_home, attacker, put, shared, wait_for};

/// How long the attacker floods, seconds.
const SECONDS: u32 = 10;
/// Bound on the 99th percentile of another user's forwarded calls meanwhile, microseconds. What is
/// aimed at is a twentieth of it, but this machine's processors are the attacker's too.
const P99_MAX_US: u64 = 1_000_000;
/// A flooded warden or steward may grow by so much, bytes: queues that are full.
const GROWTH_MAX: u64 = 64 << 20;

/// A command of a user's on n1, which ends with this.
struct Running(Child);

impl Running {
    fn start(lab: &Lab, user: u32, words: &[&str]) -> Running {
        let uid = user.to_string();
        let prefix = ["env", "-C", "/", "setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--"];
        let mut command = lab.in_node("n1", [&prefix, words].concat());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A user's processes that are away: their numbers at home.
fn away(lab: &Lab, user: u32) -> Vec<i32> {
    let listed = lab.exec("n1", ["tern", "ps", "--json"]).unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    let guests = rows.as_array().into_iter().flatten().map(|row| &row["guest"]);
    let of_user = guests.filter(|guest| guest["uid"] == user);
    of_user.filter_map(|guest| i32::try_from(guest["pid"].as_i64()?).ok()).collect()
}

/// Starts a sleeper of this user on n2.
fn sleeper(lab: &Lab, user: u32) -> Running {
    let running = Running::start(lab, user, &["tern", "run", "--on", "n2", "--", "sleep", "1000"]);
    wait_for("the sleeper to be away", || !away(lab, user).is_empty());
    running
}

/// Ends all of a user's processes that are away.
fn end_all(lab: &Lab, user: u32) {
    wait_for("the user's processes to end", || {
        let left = away(lab, user);
        left.iter().for_each(|pid| drop(lab.exec("n1", ["kill", "-KILL", &pid.to_string()]).unwrap()));
        left.is_empty()
    });
}

/// The processes of a role on a node that serve this user's rooms, as this machine numbers them;
/// without what they have forked.
fn serving(lab: &Lab, node: &str, role: &str, user: u32) -> Vec<i32> {
    let serves = |pid: &i32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&str> = line.split('\0').collect();
        words.get(1) == Some(&role) && words.windows(2).any(|pair| pair == ["--owner", &user.to_string()])
    };
    let all: Vec<i32> = lab.processes(node).unwrap().into_iter().filter(serves).collect();
    let is_forked = |pid: i32| {
        let parent = status_line(pid, "PPid:").and_then(|parent| parent.parse().ok());
        parent.is_some_and(|parent: i32| all.contains(&parent))
    };
    all.iter().copied().filter(|pid| !is_forked(*pid)).collect()
}

fn status_line(pid: i32, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()))
}

fn resident_bytes(pids: &[i32]) -> u64 {
    let of = |pid: &i32| status_line(*pid, "VmRSS:")?.split(' ').next()?.parse::<u64>().ok();
    pids.iter().filter_map(of).sum::<u64>() << 10
}

/// The 99th percentile of a placed program's forwarded calls, microseconds.
fn p99_us(lab: &Lab, user: u32, flood: &str) -> u64 {
    let output = at_home(lab, &format!("as_user {user} tern run --on n2 -- {flood} measure 500"));
    let text = output.text();
    text.split(' ').next().and_then(|p99| p99.parse().ok()).unwrap_or_else(|| panic!("{text}\n{}", output.errors()))
}

/// The ids here of a room's processes, as its warden's children have them mapped.
fn ids(warden: i32) -> BTreeSet<u64> {
    let children = std::fs::read_to_string(format!("/proc/{warden}/task/{warden}/children")).unwrap_or_default();
    let porter = children.split(' ').next().unwrap_or_default();
    let map = std::fs::read_to_string(format!("/proc/{porter}/uid_map")).unwrap_or_default();
    map.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect()
}

/// A user floods home and room with signals, calls, children and writes: another user's calls are
/// answered, and nothing grows.
#[test]
fn a_flood_is_the_flooding_users_own() {
    let _alone = alone();
    let lab = shared();
    let flood = put(&lab, "n1", "flood", &attacker("flood"));
    let (attacker, victim) = (2001, 2002);
    let quiet_us = p99_us(&lab, victim, &flood);
    let seconds = SECONDS.to_string();
    let mut guest = Running::start(&lab, attacker, &["tern", "run", "--on", "n2", "--", &flood, "guest", &seconds]);
    wait_for("the attacker to be away", || away(&lab, attacker).len() > 1);
    let serving = [serving(&lab, "n2", "__warden", attacker), serving(&lab, "n1", "__steward", attacker)];
    assert_eq!(serving.each_ref().map(Vec::len), [1, 1]);
    let before = serving.each_ref().map(|pids| resident_bytes(pids));
    let first = away(&lab, attacker).into_iter().min().unwrap().to_string();
    let floods = [0; 2].map(|_| Running::start(&lab, attacker, &[&flood, "home", &first, &seconds]));
    let flooded_us = p99_us(&lab, victim, &flood);
    let mut grown = [0; 2];
    wait_for("the flood to end", || {
        for (at, pids) in serving.iter().enumerate() {
            grown[at] = grown[at].max(resident_bytes(pids).saturating_sub(before[at]));
        }
        guest.is_over()
    });
    drop(floods);
    end_all(&lab, attacker);
    println!(
        "p99 of another user's calls: {quiet_us} us, flooded {flooded_us} us; grown: warden {} KiB, steward {} KiB",
        grown[0] >> 10,
        grown[1] >> 10
    );
    assert!(flooded_us < P99_MAX_US, "{flooded_us} us");
    assert!(grown.iter().all(|bytes| *bytes < GROWTH_MAX), "{grown:?}");
}

/// Users share neither steward nor warden nor ids; what ends one user's room ends nobody else's
/// processes.
#[test]
fn users_share_no_room() {
    let _alone = alone();
    let lab = shared();
    let users = [2003, 2004, 2009];
    let _sleepers = users.map(|user| sleeper(&lab, user));
    let wardens = users.map(|user| serving(&lab, "n2", "__warden", user));
    let ids: Vec<BTreeSet<u64>> = wardens.iter().map(|wardens| ids(wardens[0])).collect();
    assert!(ids.iter().all(|ids| !ids.is_empty()), "{ids:?}");
    assert!(ids.iter().enumerate().all(|(n, a)| ids[..n].iter().all(|b| a.is_disjoint(b))), "{ids:?}");
    let stewards = users.map(|user| serving(&lab, "n1", "__steward", user));
    assert!(wardens.iter().chain(&stewards).all(|pids| pids.len() == 1), "{wardens:?} {stewards:?}");
    // SAFETY: a plain system call; the process is a warden of this test's lab.
    assert_eq!(unsafe { libc::kill(wardens[0][0], libc::SIGKILL) }, 0);
    wait_for("the room's processes to end", || away(&lab, users[0]).is_empty());
    assert!(users[1..].iter().all(|user| !away(&lab, *user).is_empty()));
    let again = at_home(&lab, "as_user 2003 tern run --on n2 -- echo again");
    assert_eq!(again.text(), "again", "{}", again.errors());
    users.into_iter().for_each(|user| end_all(&lab, user));
}

/// Sends a packet to a Unix socket, and prints the answer in hexadecimal.
const ASK: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.send(bytes.fromhex(sys.argv[2]))
print(s.recv(65536).hex())";

/// Whoever gets a daemon to mix users up: a steward takes its own user's processes alone.
#[test]
fn a_room_takes_no_other_users_process() {
    let _alone = alone();
    let lab = shared();
    let (owner, other) = (2005, 2006);
    let _sleeper = sleeper(&lab, owner);
    let steward = serving(&lab, "n1", "__steward", owner)[0];
    let line = std::fs::read_to_string(format!("/proc/{steward}/cmdline")).unwrap();
    let words: Vec<&str> = line.split('\0').collect();
    let value = |name| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]).unwrap();
    let socket = format!("{}/rooms/{}.steward", value("--run-dir"), value("--room"));
    let victim = crate::support::Victim::start(&lab, other);
    let ask = |message: &ToSteward| -> FromSteward {
        let hex: String = postcard::to_stdvec(message).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        let answer = lab.exec("n1", [PYTHON, "-c", ASK, &socket, &hex]).unwrap();
        let text = answer.text();
        let bytes: Vec<u8> =
            (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect();
        postcard::from_bytes(&bytes).unwrap_or_else(|e| panic!("{e}: {text} {}", answer.errors()))
    };
    assert_eq!(ask(&ToSteward::Owner), FromSteward::Owner { uid: owner });
    let answer = ask(&ToSteward::Move { pid: victim.pid, wish: MoveOptions::default(), asker_uid: 0, sibling: None });
    let FromSteward::Failed { reason } = answer else { panic!("{answer:?}") };
    assert!(reason.contains("is user 2006's"), "{reason}");
    assert!(victim.is_well());
    end_all(&lab, owner);
}

/// All rooms of a node are below one group, whose memory is bounded.
#[test]
fn rooms_have_bounded_memory_together() {
    let _alone = alone();
    let lab = shared();
    let _sleepers = [2007, 2008].map(|user| sleeper(&lab, user));
    let limit = |group: &std::path::Path| {
        let read = |name: &str| std::fs::read_to_string(group.join("tern-rooms").join(name)).ok();
        let text = read("memory.limit_in_bytes").or_else(|| read("memory.max"))?;
        Some((text.trim().parse::<u64>().ok()?, std::fs::read_dir(group.join("tern-rooms")).ok()?))
    };
    let state = lab.state();
    let found = state.node("n2").unwrap().whole_cgroups().find_map(limit);
    let (limit, entries) = found.expect("a group of all rooms with a limit of memory");
    let rooms = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("tern-")).count();
    // SAFETY: plain numbers.
    let machine = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) as u64 * libc::sysconf(libc::_SC_PAGESIZE) as u64 };
    assert!(limit <= machine / 10 * 9 && rooms >= 2, "{limit} of {machine} bytes for {rooms} rooms");
    [2007, 2008].into_iter().for_each(|user| end_all(&lab, user));
}

/// A room's range has the owner's id, however large; a group outside of it does not keep the
/// program from running.
#[test]
fn large_ids_are_the_owners() {
    let _alone = alone();
    let lab = shared();
    let placed = at_home(
        &lab,
        "setpriv --reuid 1234567890 --regid 1234567890 --groups 3000000000,7 -- tern run --on n2 -- sh -c 'id -ru; id -rg; : > made'
        stat -c '%u %g' made",
    );
    assert_eq!(placed.text(), "1234567890\n1234567890\n1234567890 1234567890", "{}", placed.errors());
}
