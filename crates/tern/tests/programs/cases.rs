//! The table of real programs. Each is one process with threads at most; what it prints must not
//! change from run to run.

/// Where standard input comes from.
pub enum Input {
    /// Standard input is `/dev/null`.
    Nothing,
    /// A pipe, filled with this file of the case's directory.
    Pipe(&'static str),
    /// A terminal, on which this is typed.
    Terminal(&'static str),
    /// The same, when the first of these has been printed the second is typed.
    Prompted(&'static str, &'static str),
}

/// A command and what it needs.
pub struct Case {
    pub name: &'static str,
    /// Programs that must be installed, else the case is left out.
    pub needs: &'static [&'static str],
    /// Arguments, the program's name first. `CC1` is the path of gcc's compiler proper, which forks
    /// no assembler.
    pub command: &'static [&'static str],
    pub input: Input,
    /// Standard error differs in its words.
    pub own_words: bool,
}

const fn case(name: &'static str, command: &'static [&'static str]) -> Case {
    Case { name, needs: &[], command, input: Input::Nothing, own_words: false }
}

/// Only the status is compared: who says why it failed differs.
const fn failing(name: &'static str, command: &'static [&'static str]) -> Case {
    Case { own_words: true, ..case(name, command) }
}

const fn piped(name: &'static str, file: &'static str, command: &'static [&'static str]) -> Case {
    Case { name, needs: &[], command, input: Input::Pipe(file), own_words: false }
}

const fn typed(name: &'static str, text: &'static str, command: &'static [&'static str]) -> Case {
    Case { name, needs: &[], command, input: Input::Terminal(text), own_words: false }
}

const fn prompted(
    name: &'static str,
    prompt: &'static str,
    text: &'static str,
    command: &'static [&'static str],
) -> Case {
    Case { name, needs: &[], command, input: Input::Prompted(prompt, text), own_words: false }
}

const fn needing(needs: &'static [&'static str], case: Case) -> Case {
    Case { needs, ..case }
}

/// Made once, copied for every run: inputs that are too large or too special to keep as files. Runs
/// in the directory with the inputs.
pub const PANTRY: &str = r#"
set -e
/usr/bin/python3 - <<'END'
import random
random.seed(7)
words = [''.join(random.choices('etaoinshrdlu', k=random.randint(2, 9))) for _ in range(4000)]
with open('words', 'w') as f:
    for _ in range(20000):
        f.write(' '.join(random.choices(words, k=8)) + '\n')
with open('big', 'wb') as f:
    f.write(random.randbytes(3 << 20) + open('words', 'rb').read() + bytes(2 << 20))
END
gcc -O1 -pthread -o many_threads many_threads.c
gcc -O1 -static -o static_program program.c -lm
gcc -O2 -S -o assembly.s program.c
if command -v go >/dev/null; then CGO_ENABLED=0 GOFLAGS=-mod=mod go build -o go_program compute.go; fi
if command -v rustc >/dev/null; then rustc -O --edition 2024 -C target-feature=+crt-static -o rust_program compute.rs; fi
mkdir tree; for i in 1 2 3 4 5 6 7 8 9; do mkdir -p tree/$i/$i; head -c ${i}0000 words > tree/$i/$i/text; ln -s $i/text tree/$i/link; done
printf '#!/usr/bin/perl\nprint "@ARGV\\n"; exit 4;\n' > script; chmod 755 script
printf 'echo plain; exit 6\n' > plain; chmod 755 plain
chmod 600 tables.sql
"#;

pub const CASES: &[Case] = &[
    // Python
    case("python threads", &["python3", "threads.py"]),
    case("python files", &["python3", "files.py"]),
    case("python sqlite3 with a rollback journal", &["python3", "journal.py"]),
    case("python surroundings", &["python3", "surroundings.py", "a b", "", "ü"]),
    case(
        "python hashes a big file",
        &[
            "python3",
            "-c",
            "import hashlib; print([hashlib.new(h, open('big', 'rb').read()).hexdigest() for h in ('md5', 'sha256', 'blake2b')])",
        ],
    ),
    piped("python program from a pipe", "threads.py", &["python3", "-"]),
    case("python exits 3", &["python3", "-c", "import sys; print('x', file=sys.stderr); sys.exit(3)"]),
    case("python dies of a signal", &["python3", "-c", "import os; os.kill(os.getpid(), 15)"]),
    case(
        "python segfaults",
        &[
            "python3",
            "-c",
            "import resource, ctypes; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); ctypes.string_at(0)",
        ],
    ),
    case(
        "python handles its own signal",
        &[
            "python3",
            "-c",
            "import signal, os\nsignal.signal(10, lambda *a: print(a[0]))\nos.kill(os.getpid(), 10)\nsignal.raise_signal(10)",
        ],
    ),
    case(
        "python alarm",
        &[
            "python3",
            "-c",
            "import signal\nsignal.signal(14, lambda *a: print('rang'))\nsignal.setitimer(0, 0.02)\nsignal.pause()",
        ],
    ),
    // Big files
    case("sort with temporary files", &["sort", "-S", "512k", "-T", ".", "-u", "words"]),
    case("sort with threads", &["sort", "--parallel=4", "-k2", "-o", "sorted", "words"]),
    case("zstd with threads", &["zstd", "-q", "-T4", "-5", "big", "-o", "big.zst"]),
    piped("zstd from a pipe", "big", &["zstd", "-q", "-c"]),
    case("xz", &["xz", "-T2", "-1", "--keep", "words"]),
    case("sha256sum", &["sha256sum", "big", "words", "nothing"]),
    case("dd", &["dd", "if=big", "of=part", "bs=4096", "skip=100", "count=200", "conv=fsync", "status=none"]),
    case("cp sparse", &["cp", "--sparse=always", "big", "sparse"]),
    case("split", &["split", "-n", "7", "big", "piece."]),
    // Compilers
    case("cc1", &["CC1", "-quiet", "-imultiarch", "x86_64-linux-gnu", "-O2", "program.c", "-o", "program.s"]),
    case("cc1 with an error", &["CC1", "-quiet", "threads.py", "-o", "none.s"]),
    case("as", &["as", "assembly.s", "-o", "assembly.o"]),
    case("nm", &["nm", "static_program"]),
    case("objdump", &["objdump", "-d", "--stop-address=0x402000", "static_program"]),
    // Databases, scripts, numbers
    piped("sqlite3", "tables.sql", &["sqlite3", "tables.db"]),
    case("perl", &["perl", "text.pl", "one", "two"]),
    case("perl script by its first line", &["./script", "x", "y z"]),
    piped("bc", "numbers", &["bc", "-lq"]),
    case("awk", &["awk", "{ n[$1]++ } END { for (w in n) if (n[w] > 20) s += n[w]; print s, NR }", "words"]),
    case("sed", &["sed", "-n", "s/\\(e[a-z]*\\) .*/\\1/p;100q", "words"]),
    case("grep", &["grep", "-rc", "eta", "tree"]),
    needing(
        &["octave-cli"],
        case(
            "octave",
            &[
                "octave-cli",
                "--no-history",
                "--eval",
                "rand('seed',1); a = magic(40); disp(det(a(1:5,1:5))); disp(sum(svd(a)))",
            ],
        ),
    ),
    needing(
        &["ffmpeg"],
        case(
            "ffmpeg",
            &[
                "ffmpeg",
                "-v",
                "error",
                "-nostdin",
                "-f",
                "lavfi",
                "-i",
                "testsrc=d=1:s=160x120",
                "-c:v",
                "mpeg4",
                "-bitexact",
                "-threads",
                "4",
                "out.avi",
            ],
        ),
    ),
    // Programs that bring everything along, and many threads
    piped("static C program", "words", &["./static_program"]),
    needing(&["go"], case("static Go program", &["./go_program"])),
    needing(&["rustc"], piped("static Rust program", "words", &["./rust_program"])),
    case("32 threads", &["./many_threads"]),
    // Trees
    case(
        "find over /usr",
        &["find", "/usr/bin", "/usr/include", "/usr/share/doc", "-printf", "%p %y %s %m %u %g %T@ %C@ %n %i %l\\n"],
    ),
    case("find with a test", &["find", "tree", "-type", "l", "-lname", "5*", "-o", "-size", "+50k"]),
    case("tar", &["tar", "-cf", "tree.tar", "--sort=name", "tree"]),
    case("cp -a", &["cp", "-a", "tree", "copy"]),
    case("rm -r", &["rm", "-rv", "tree"]),
    case("mv", &["mv", "-v", "words", "tree/3/"]),
    case("du", &["du", "-a", "--apparent-size", "tree/7"]),
    case("ls", &["ls", "-lanR", "--full-time", "tree", "/etc/init.d", "/etc/alternatives"]),
    case("stat", &["stat", "-c", "%n %a %u %g %s %h %F %Y", "words", "tree", "tree/1/link", "/", "/etc/passwd"]),
    case("diff", &["diff", "-r", "tree/1", "tree/2"]),
    case("df", &["df", "--output=target", "."]),
    // Small ones
    case("echo to nowhere", &["cp", "words", "/dev/full"]),
    case("random", &["dd", "if=/dev/urandom", "of=/dev/null", "bs=1000", "count=10", "status=none"]),
    case("id", &["id"]),
    case("hostname", &["hostname"]),
    case("uname", &["uname", "-snm"]),
    case("env", &["env", "-u", "_", "-u", "TERN_STATE"]),
    case("pwd", &["pwd", "-P"]),
    case("true", &["true"]),
    case("false", &["false"]),
    case("sleep", &["sleep", "0.05"]),
    case("timeout value", &["date", "-u", "-d", "@86400"]),
    piped("cat", "big", &["cat"]),
    piped("wc", "words", &["wc"]),
    piped("head leaves its pipe", "big", &["head", "-c", "100000"]),
    piped("od", "big", &["od", "-A", "d", "-N", "100000", "-t", "x4"]),
    // Errors of starting, in tern's own words
    failing("no such program", &["./nothing-here"]),
    failing("not executable", &["./words"]),
    failing("a directory", &["./tree"]),
    case("script without a first line", &["./plain"]),
    // Terminals
    typed(
        "terminal: line",
        "hello\n",
        &[
            "python3",
            "-c",
            "import sys; s = input(); print(s.upper(), [f.isatty() for f in (sys.stdin, sys.stdout, sys.stderr)])",
        ],
    ),
    typed("terminal: settings", "", &["stty", "-a"]),
    typed("terminal: name", "", &["tty", "-s"]),
    prompted(
        "terminal: no echo",
        "now\r\n",
        "secret\n",
        &[
            "python3",
            "-c",
            "import termios, sys\na = termios.tcgetattr(0)\na[3] &= ~termios.ECHO\ntermios.tcsetattr(0, termios.TCSADRAIN, a)\nprint('now', flush=True)\nprint(len(sys.stdin.readline()), termios.tcgetattr(0)[3] & termios.ECHO)",
        ],
    ),
    typed(
        "terminal: window",
        "",
        &["python3", "-c", "import os; print(os.get_terminal_size(0), os.isatty(0), os.isatty(1))"],
    ),
    typed("terminal: colours", "", &["ls", "--color=auto", "tree"]),
];

/// What other users may and may not do, each run by every user: files of `prepare_users`.
pub const PERMISSIONS: &[Case] = &[
    case("own surroundings", &["python3", "surroundings.py"]),
    case("root's private file", &["cat", "private"]),
    case("a file by group", &["cat", "grouped"]),
    case("a file by ACL", &["cat", "listed"]),
    case("the ACL", &["getfacl", "-n", "listed", "defaulted"]),
    case("directory without search", &["cat", "closed/inside"]),
    case("directory without read", &["ls", "unlisted"]),
    case("inside a directory without read", &["cat", "unlisted/inside"]),
    case("shadow", &["cat", "/etc/shadow"]),
    case("write to a shared directory", &["cp", "grouped", "words", "shared/"]),
    case("default ACL", &["touch", "defaulted/new"]),
    case("remove another's file", &["rm", "-f", "sticky/roots"]),
    case("change another's mode", &["chmod", "777", "grouped"]),
    case("give away", &["chown", "0:0", "shared"]),
    case("truncate another's", &["truncate", "-s", "0", "private"]),
];

/// Makes what `PERMISSIONS` is about. Runs in the directory, as root; `USER` is the uid that will
/// run.
pub const PREPARE_USERS: &str = r#"
set -e
echo secret > private; chmod 600 private
echo for the group > grouped; chgrp 2000 grouped; chmod 640 grouped
echo by list > listed; chmod 600 listed; setfacl -m u:1002:r listed
mkdir closed unlisted shared sticky defaulted
echo inside > closed/inside; chmod 700 closed
echo inside > unlisted/inside; chmod 711 unlisted
chmod 777 shared; chmod 1777 sticky; echo x > sticky/roots
chmod 777 defaulted; setfacl -d -m u:1002:rw -m g:2000:r defaulted
"#;
