//! `tern image`: what a process is, in a file.

use crate::{at_home, shared};

/// A process is looked at while it runs, and goes on; what is no image, or holds what is not known,
/// is refused in words.
#[test]
fn a_process_in_a_file() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        python3 -c 'import os, mmap, time
m = mmap.mmap(-1, 8192); r, w = os.pipe(); os.write(w, b"abc"); f = open("named", "w"); print("up", flush=True)
for i in range(10000): time.sleep(0.01); print(i, flush=True)' > said & pid=$!
        lines said 2
        tern image save $pid picture | sed s/$pid/PID/ | cut -d: -f1
        lines said $(($(wc -l < said) + 3)); grep -q 'TracerPid:.0' /proc/$pid/status && echo "goes on"
        tern image show picture > words; grep -c -e "pid $pid," -e "/named, inode" -e "3 of 65536 bytes" -e "without a name, 8192 bytes" words
        tern image show --json picture | python3 -c 'import json, sys; i = json.load(sys.stdin)
print(sorted(i), len(i["threads"]), i["process"]["cwd"] == sys.argv[1], i["objects"]["pipes"][0]["content"])' "$PWD"
        kill $pid
        (cat picture; printf 'c\0\1\0\0\0\0\0') > more; printf '\377' | dd of=picture bs=1 seek=10 conv=notrunc 2> dd
        head -c 100 /dev/urandom > noise
        for f in more picture noise /dev/null missing; do tern image show $f 2>&1 | head -1; done
        tern image save 1000000 x 2>&1 | grep -c "tern: process 1000000"
        "#,
    )
    .text();
    let wanted = [
        "process PID",
        "goes on",
        "4",
        "['areas', 'descriptors', 'files', 'objects', 'process', 'threads'] 1 True [97, 98, 99]",
        "tern: more: the image holds state that is not known here: section 99, version 1; upgrade this tern",
        "tern: picture: the image holds state that is not known here: section 1 (process), version 255; upgrade this tern",
        "tern: noise: no process image of this version of tern",
        "tern: /dev/null: no process image of this version of tern",
        "tern: reading missing: No such file or directory (os error 2)",
        "1",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
}
