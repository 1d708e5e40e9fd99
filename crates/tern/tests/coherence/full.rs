//! Disks that fill while a program writes.

use crate::at_home;

/// More than home wants to have free before a room may answer writes, so that writes are behind.
const DISK: &str = "mkdir -p /tmp/disk && mount -t tmpfs -o size=1200m none /tmp/disk";

/// Writes numbered blocks until an error comes, and tells which call had it and how many blocks it
/// wrote before. With an argument it syncs after each so many blocks.
const WRITER: &str = r#"
import errno, os, sys
every, path = int(sys.argv[1]), sys.argv[2]
file, count = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 0
block = lambda n: (b"%015d\n" % n) * 4096
call = "write"
try:
    while True:
        call = "write"
        written = os.write(file, block(count))
        if written < 65536: call = "short"; os.write(file, block(count)[written:])
        count += 1
        if count == 20: open(path + ".begun", "w").close()
        if every and count % every == 0: call = "fsync"; os.fsync(file)
except OSError as error:
    print(errno.errorcode[error.errno], count)
os.close(file)
"#;

/// Tells whether the file consists of the numbered blocks in their order; the last may be cut.
const CHECK: &str = r#"
import sys
count, content = int(sys.argv[2]), open(sys.argv[1], "rb")
blocks = 0
while True:
    seen = content.read(65536)
    if not seen: break
    wanted = (b"%015d\n" % blocks) * 4096
    if seen != wanted[:len(seen)]: print("block", blocks, "differs"); break
    blocks += len(seen) == 65536
print("in order, told of no more than wrote" if blocks <= count else f"{blocks} blocks, told of {count}")
"#;

/// The program itself fills the disk: as natively, its write fails when no byte more fits.
#[test]
fn a_program_that_fills_the_disk_is_told_by_its_write() {
    let lab = crate::common::lab_of(&crate::common::options(2));
    let script = format!(
        "{DISK}; cat > writer.py <<'END'\n{WRITER}\nEND\n\
         for how in '' 'tern run --strict --on n2 --'; do \
         $how /usr/bin/python3 writer.py 0 /tmp/disk/file; stat -c %s /tmp/disk/file; rm /tmp/disk/file*; done"
    );
    let output = at_home(&lab, 120, &script);
    let text = output.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}\n{}", output.errors());
    assert_eq!((lines[0], lines[1]), (lines[2], lines[3]), "native, and placed");
    assert!(lines[0].starts_with("ENOSPC "), "{text}");
}

/// Another program takes all space in one moment, while writes are behind: the writer hears of it,
/// and its file holds the beginning of what it wrote.
#[test]
fn a_disk_that_another_fills_leaves_a_whole_beginning() {
    let lab = crate::common::lab_of(&crate::common::options(2));
    assert!(at_home(&lab, 10, DISK).status.success());
    for every in [0, 8] {
        let script = format!(
            "rm -f /tmp/disk/*; cat > writer.py <<'END'\n{WRITER}\nEND\ncat > check.py <<'END'\n{CHECK}\nEND\n\
             tern run --strict --on n2 -- /usr/bin/python3 writer.py {every} /tmp/disk/file > told & \
             until [ -e /tmp/disk/file.begun ]; do sleep 0.01; done; \
             until fallocate -l 2G /tmp/disk/rest 2> /dev/null || ! head -c 100M /dev/zero >> /tmp/disk/rest; do :; done 2> /dev/null; \
             wait; cat told; /usr/bin/python3 check.py /tmp/disk/file $(cut -d' ' -f2 told)"
        );
        let output = at_home(&lab, 120, &script);
        let text = output.text();
        assert!(text.starts_with("ENOSPC "), "{text}\n{}", output.errors());
        assert!(text.contains("in order, told of no more than wrote") && !text.contains("differs"), "{text}");
    }
}
