//! Processes that have files mapped shared and writable leave home with them, if no other process
//! has the files open, and come back with all that they have stored.

use crate::{at_home, shared};

/// Counts in a file that it has mapped, and in memory; ends when a file says so. With an argument
/// it closes the file first.
const COUNTS: &str = r#"
import mmap, os, sys, time
f = os.open("file", os.O_RDWR | os.O_CREAT, 0o600); os.ftruncate(f, 3 * 4096)
m = mmap.mmap(f, 3 * 4096)
if sys.argv[1:]: os.close(f)
n, there = 0, lambda: int.from_bytes(m[8192:8200], "little")
print("counts", flush=True)
while not os.path.exists("stop") and there() == n:
    n += 1; m[8192:8200] = n.to_bytes(8, "little"); time.sleep(0.0005)
print("right" if there() == n > 100 else "wrong %d %d" % (there(), n), flush=True)
"#;

/// Tools of these tests: the count in the file as home's processes see it, and a started counter.
const TOOLS: &str = r#"
count() { od -An -tu8 -j8192 -N8 file | tr -d ' '; }
start() { rm -f stop file; python3 counts.py $1 > said 2>&1 & pid=$!; lines said 1; until_ '[ $(count) -gt 20 ]'; }
ended() { touch stop; wait $pid; echo "$(tail -n 1 said) $?"; }
"#;

fn counting(script: &str) -> String {
    let script = format!("cat > counts.py <<'END'{COUNTS}END\n{TOOLS}\n{script}");
    at_home(&shared(), &script).text()
}

#[test]
fn a_process_takes_a_mapped_file_along_and_brings_it_back() {
    let text = counting(
        r#"
        for closed in '' closed; do
            start $closed
            for to in n2 home n2 n3 home n3 home n2; do tern move $pid $to || echo "not to $to"; done
            ended; [ $(count) -gt 100 ] && echo kept
        done"#,
    );
    assert_eq!(text, "right 0\nkept\nright 0\nkept");
}

/// The reader waits until the process is home, and sees the latest count.
#[test]
fn a_reader_brings_a_process_home_that_has_left_with_its_file() {
    let text = counting(
        r#"
        start closed; before=$(count); tern move $pid n2
        [ $(count) -gt $before ] && echo more
        until_ 'tern why $pid | grep -q "came home from n2 by itself, for mmap(2) of"'; echo home
        now=$(count); until_ "[ \$(count) -gt $now ]"
        ended"#,
    );
    assert_eq!(text, "more\nhome\nright 0");
}

#[test]
fn a_file_that_another_process_has_open_keeps_the_process() {
    let text = counting(
        r#"
        start closed; exec 7<file
        tern move $pid n2 2>&1 | grep -o 'mapped shared and writable: process [0-9]* has it open, too' | sed "s/ $$ / SHELL /"
        exec 7<&-; tern move $pid n2 && echo went; ended"#,
    );
    assert_eq!(text, "mapped shared and writable: process SHELL has it open, too\nwent\nright 0");
}

/// A child that was made before has the mapping, too.
#[test]
fn a_child_that_shares_the_mapping_keeps_the_process() {
    let text = counting(
        r#"
        cat > both.py <<'END'
import mmap, os, time
f = os.open("file", os.O_RDWR | os.O_CREAT, 0o600); os.ftruncate(f, 4096); m = mmap.mmap(f, 4096); os.close(f)
child = os.fork()
while child == 0: time.sleep(0.1)
print(child, flush=True); os.waitpid(child, 0); print("alone", flush=True); time.sleep(60)
END
        python3 both.py > said & pid=$!; lines said 1; child=$(head -n 1 said)
        tern move $pid n2 2>&1 | grep -c 'file mapped shared and writable'
        kill $child; lines said 2; tern move $pid n2 && tern move $pid home && echo went; kill $pid"#,
    );
    assert_eq!(text, "1\nwent");
}

#[test]
fn java_moves_with_its_statistics() {
    let text = at_home(
        &shared(),
        r#"
        command -v javac > /dev/null || { echo right; exit 0; }
        cat > Works.java <<'END'
import java.nio.*; import java.nio.channels.*; import java.nio.file.*;
class Works {
    public static void main(String[] words) throws Exception {
        FileChannel file = FileChannel.open(Path.of("own"), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        MappedByteBuffer map = file.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 16);
        file.close();
        System.out.println("works");
        int rounds = 0;
        for (; !Files.exists(Path.of("stop")); rounds++) {
            int at = rounds % (1 << 14) * 4;
            if (map.getInt(at) != (rounds < 1 << 14 ? 0 : rounds - (1 << 14))) { System.out.println("wrong"); return; }
            map.putInt(at, rounds);
            if (rounds % 100 == 0) Thread.sleep(1);
        }
        System.out.println("right");
    }
}
END
        javac Works.java; java -Xmx64m -XX:+UseSerialGC Works > said 2>&1 & pid=$!; lines said 1
        for to in n2 home n3 n2 home n2; do tern move $pid $to || echo "not to $to"; done
        touch stop; wait $pid; tail -n 1 said"#,
    )
    .text();
    assert_eq!(text, "right");
}
