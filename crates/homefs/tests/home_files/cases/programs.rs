//! Whole programs of which every byte comes from home: the root of the room is a mount of home's
//! root.

use crate::agent::{Background, Peer, as_user};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const SCRIPTS: [&str; 4] = [
    "ls -l /usr/lib /etc | sed 's/^total.*//'",
    "cat /etc/passwd /usr/share/common-licenses/* | sha256sum",
    "find /usr/share/doc -type f | sort | head -2000 | xargs cat | md5sum",
    "cd /usr/bin && ls | while read f; do test -x $f && echo $f; done | cksum",
];

fn output(script: &str) -> String {
    let out =
        Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(out.status.success(), "{script}: {}", out.status);
    String::from_utf8_lossy(&out.stdout).replace('\n', "|")
}

/// Makes the mount the root; devices are this machine's own.
fn enter(dir: &Path) {
    use rustix::mount::{MountFlags, mount};
    let flags = MountFlags::BIND | MountFlags::REC;
    mount("/dev", dir.join("dev"), c"", flags, None::<&std::ffi::CStr>).unwrap();
    std::os::unix::fs::chroot(dir).unwrap();
    std::env::set_current_dir("/").unwrap();
}

pub fn home(_: &Path, peer: &mut Peer) {
    for script in SCRIPTS {
        peer.expect("next");
        peer.tell(&output(script));
    }
    peer.expect("done");
}

pub fn room(dir: &Path, peer: &mut Peer) {
    enter(dir);
    for script in SCRIPTS {
        peer.tell("next");
        assert_eq!(output(script), peer.hear(), "{script}");
    }
    as_user(1000, &[], || assert!(output("id -u; cat /etc/shadow 2>/dev/null || echo refused").contains("refused")));
    peer.tell("done");
}

const PROGRAM: &str = "import re,sys; out=open(sys.argv[1],'w')\nfor i in range(500):\n print(f'static int f{i}(int *a, int b) {{ for (int j = 0; j < b; j++) a[j] = a[j] * {i} + (j ^ {i}); return a[b / 2]; }} int (*p{i})(int *, int) = f{i};', file=out)\n";

/// Times the same operations at home and in the room, for comparison by eye.
pub fn bench_home(_: &Path, peer: &mut Peer) {
    peer.expect("next");
    output(&format!(
        "mkdir -p /var/tmp/homefs-bench && chmod 1777 /var/tmp/homefs-bench && python3 -c \"{PROGRAM}\" /var/tmp/homefs-bench/big.c"
    ));
    fs::write("/var/tmp/homefs-bench/file", vec![1; 64 << 20]).unwrap();
    peer.tell("made");
    peer.expect("room done");
    measure("home");
    fs::remove_dir_all("/var/tmp/homefs-bench").unwrap();
}

pub fn bench_room(dir: &Path, peer: &mut Peer) {
    peer.tell("next");
    peer.expect("made");
    enter(dir);
    measure("room");
    count_requests(peer);
    peer.tell("room done");
}

/// Prints what a listing of many directories asks home for, when the room has seen them before.
fn count_requests(peer: &mut Peer) {
    use homefs::proto::Opcode;
    let find = || assert!(Command::new("find").arg("/usr/share/doc").output().unwrap().status.success());
    (0..2).for_each(|_| find());
    let asked = [Opcode::Opendir, Opcode::Readdir, Opcode::Readdirplus, Opcode::Lookup, Opcode::Getattr];
    let mut count = |opcode: Opcode| {
        peer.tell(&format!("?requests {}", opcode as u32));
        peer.hear().parse::<u64>().unwrap()
    };
    let before = asked.map(&mut count);
    timed("room", "find, warm", 1, find);
    for (opcode, before) in asked.into_iter().zip(before) {
        println!("  {opcode:?}: {} in 5 runs", count(opcode) - before);
    }
}

fn timed(place: &str, what: &str, times: u32, mut run: impl FnMut()) {
    let mut best_us = f64::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        (0..times).for_each(|_| run());
        best_us = best_us.min(began.elapsed().as_secs_f64() * 1e6 / f64::from(times));
    }
    println!("  {place}: {what}: {best_us:.2} us");
}

fn measure(place: &str) {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    let path = c"/var/tmp/homefs-bench/file";
    let began = Instant::now();
    let bytes = fs::read("/var/tmp/homefs-bench/file").unwrap().len();
    println!("  {place}: first read: {:.0} MB/s", bytes as f64 / began.elapsed().as_secs_f64() / 1e6);
    let file = rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap();
    let mut page = [0; 4096];
    timed(place, "cached pread 4096", 20_000, || assert_eq!(rustix::io::pread(&file, &mut page, 8192).unwrap(), 4096));
    timed(place, "cached stat", 20_000, || assert!(rustix::fs::statat(CWD, path, AtFlags::empty()).is_ok()));
    timed(place, "stat of nothing", 20_000, || {
        assert!(rustix::fs::statat(CWD, c"/usr/no/such", AtFlags::empty()).is_err())
    });
    timed(place, "open+close", 1000, || drop(rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap()));
    let scratch = format!("/var/tmp/homefs-bench/{place}");
    timed(place, "create+write+close+unlink", 200, || {
        fs::write(&scratch, b"x").unwrap();
        fs::remove_file(&scratch).unwrap();
    });
    timed(place, "exec /bin/true", 50, || assert!(Command::new("/bin/true").status().unwrap().success()));
    let big = vec![3; 32 << 20];
    timed(place, "write 32 MB", 1, || fs::write(&scratch, &big).unwrap());
    fs::remove_file(&scratch).unwrap();
    let compile = format!("gcc -O1 -c /var/tmp/homefs-bench/big.c -o {scratch}.o");
    timed(place, "compile", 1, || drop(output(&compile)));
    timed(place, "find /usr/share/doc", 1, || drop(output("find /usr/share/doc -type f -size +1M")));
    fs::set_permissions(format!("{scratch}.o"), fs::Permissions::from_mode(0o600)).unwrap();
}

/// Runs several programs at once, some of which are killed in the middle of their work.
pub fn killed_home(_: &Path, peer: &mut Peer) {
    peer.expect("done");
}

pub fn killed_room(dir: &Path, peer: &mut Peer) {
    enter(dir);
    for round in 0..10u64 {
        let busy = [0, 1, 2, 3].map(|_| {
            Background::start(|| {
                loop {
                    output("find /usr/share -type f | head -300 | xargs cat | wc -c");
                }
            })
        });
        std::thread::sleep(std::time::Duration::from_millis(10 + 7 * round));
        for process in busy {
            process.signal(libc::SIGKILL);
            process.wait();
        }
    }
    assert!(output("ls /etc/passwd").contains("passwd"));
    peer.tell("done");
}
