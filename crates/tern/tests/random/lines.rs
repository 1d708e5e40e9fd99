//! A grammar of command lines. What they print must not depend on chance, time or numbers of
//! processes.
//!
//! In a template `<name>` stands for a draw from the list of that name.

use gossip::Draw;

/// How deep statements are nested in statements.
const DEPTH_MAX: u32 = 2;

/// Several statements, one a line.
pub fn script(draw: &mut Draw) -> String {
    let count = 1 + draw.below(4);
    (0..count).map(|_| expand("<statement>", draw, 0)).collect::<Vec<_>>().join("\n")
}

fn expand(template: &str, draw: &mut Draw, depth: u32) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let name = after.split('>').next().filter(|n| is_list(n));
        match name {
            Some(name) => {
                text.push_str(&drawn(name, draw, depth));
                rest = &after[name.len() + 1..];
            }
            None => {
                text.push('<');
                rest = after;
            }
        }
    }
    text + rest
}

fn is_list(name: &str) -> bool {
    matches!(
        name,
        "statement" | "simple" | "pipeline" | "producer" | "filter" | "file" | "number" | "word" | "signal" | "deadly"
    )
}

fn drawn(name: &str, draw: &mut Draw, depth: u32) -> String {
    if name == "number" {
        return (1 + draw.below(40)).to_string();
    }
    let list = match name {
        "file" => FILES,
        "word" => WORDS,
        "signal" => SIGNALS,
        "deadly" => DEADLY,
        "producer" => PRODUCERS,
        "filter" => FILTERS,
        "pipeline" => PIPELINES,
        "statement" if depth < DEPTH_MAX => STATEMENTS,
        _ => SIMPLE,
    };
    let deeper = if name == "statement" { depth + 1 } else { depth };
    expand(list[draw.below(list.len())], draw, deeper)
}

const FILES: &[&str] = &["words", "numbers", "table", "tree/1/text", "tree/2/sub/text", "tree/link", "none", "empty"];
const WORDS: &[&str] = &["alpha", "e", "'two words'", "x1", "'*'", "ü", "10", "''"];
const SIGNALS: &[&str] = &["TERM", "INT", "HUP", "USR1", "USR2", "KILL", "PIPE", "ALRM", "QUIT"];

const DEADLY: &[&str] = &["TERM", "HUP", "USR1", "KILL", "ALRM"];

const PRODUCERS: &[&str] = &[
    "cat <file>",
    "cat <file> <file>",
    "seq <number>",
    "seq 1 <number> 200",
    "sort <file>",
    "sort -rn numbers",
    "sort -k2,2 -t: table",
    "grep -n <word> <file>",
    "grep -rl <word> tree | sort",
    "grep -c <word> words table",
    "sed -n '<number>,+3p' <file>",
    "awk -F: '{ s += $3; print $2, $1 } END { print s }' table",
    "awk 'NR % <number> == 0 { print NR, length($0) }' words",
    "awk 'BEGIN { while ((\"seq <number>\" | getline x) > 0) t += x; print t | \"cat\" }'",
    "find tree | sort",
    "find tree -type f -size +<number>c -printf '%p %s %m\\n' | sort",
    "find tree -name '*e*' -exec wc -c {} + | sort",
    "find tree -type l -exec readlink {} \\;",
    "ls -1 tree",
    "ls -lR --time-style=+ tree | awk '{ print $1, $5, $6 }'",
    "printf '%s|%5d\\n' <word> <number> <word> <number>",
    "echo <word> <word>",
    "head -c <number>00 big | od -An -tx1",
    "tail -c <number> words",
    "cut -d: -f2- table",
    "paste -d, numbers table",
    "comm -12 <(sort words 2> /dev/null) <(sort -u words 2> /dev/null)",
    "diff <(seq <number>) <(seq <number>)",
    "join -t: <(sort table 2> /dev/null) <(sort table 2> /dev/null | sed 's/:.*:/:/')",
    "tar cf - tree | tar tf - | sort",
    "tar czf - tree numbers | tar xzOf - numbers",
    "gzip -c words | gunzip -c | head -n <number>",
    "xz -0c numbers | xz -dc",
    "zstd -qc words | zstd -dqc | tail -n <number>",
    "python3 -c 'import sys, os; [print(i * i) for i in range(<number>)]; print(sorted(os.listdir(\"tree\")))'",
    "python3 -c 'import subprocess as s; print(s.run([\"sh\", \"-c\", \"cat; exit <number>\"], input=b\"in\", capture_output=True))'",
    "python3 -c 'import os; r, w = os.pipe(); p = os.fork(); p or (os.write(w, b\"child\"), os._exit(<number>)); print(os.read(r, 9), os.waitpid(p, 0)[1])'",
    "perl -e 'print join(\",\", map { $_ * 2 } 1 .. <number>), \"\\n\"'",
    "perl -e 'open F, \"-|\", \"seq <number>\"; while (<F>) { $s += $_ } close F; print \"$s $?\\n\"'",
    "git -C repository log --oneline | cat",
    "git -C repository show HEAD --stat --format=%s | cat",
    "git -C repository grep -n line | cat",
    "git hash-object words table",
    "sha256sum <file> <file>",
    "stat -c '%n %F %a %s %h' <file> tree",
    "wc <file> <file>",
    "file=<file>; echo \"${file%/*} ${file##*/} ${#file}\"",
    "bc <<< '<number> ^ <number> % 977'",
    "expr <number> \\* <number>",
    "date -u -d @<number>00000 +%F-%T",
    "env -i A=<word> sh -c 'echo \"$A\"; env | sort'",
    "dd if=big bs=<number> count=<number> skip=3 status=none | md5sum",
    "cat < <(cat <(echo <word>) <file>)",
    "(cd tree && pwd | sed 's/.*place/place/'; ls)",
    "basename \"$(readlink -f /proc/self/exe)\"",
    "cat /dev/fd/3 3< <file>",
    "cat /proc/self/comm /proc/$$/comm",
    "tr '\\0' ' ' < /proc/self/cmdline",
    "ps -o comm=,args= -p $$",
    "ls /proc/self/fd | head -n 3",
    "id -u; umask; ulimit -n; nproc > /dev/null",
    "getconf PAGESIZE; uname -sm; hostname",
];

const FILTERS: &[&str] = &[
    "sort -u",
    "sort | uniq -c",
    "tr a-z A-Z",
    "tr -d '\\n'",
    "head -n <number>",
    "tail -n <number>",
    "tail -n +<number>",
    "wc",
    "sed 's/[aeiou]/<number>/g'",
    "sed -e '2d' -e '$!N;s/\\n/ /'",
    "awk '{ print NF, $1 }'",
    "grep -v <word>",
    "grep -c .",
    "tee copy",
    "tee >(wc -c > counted) | cat",
    "cut -c1-<number>",
    "rev",
    "tac",
    "nl -ba",
    "fold -w <number>",
    "base64 -w 40",
    "gzip -c | gunzip",
    "xz -0 | xz -d",
    "zstd -q | zstd -dq",
    "python3 -c 'import sys; sys.stdout.write(sys.stdin.read()[::-1])'",
    "perl -ne 'print scalar reverse; $n++; END { print \"$n\\n\" }'",
    "while read -r a b; do echo \"<$b|$a>\"; done",
    "xargs -d '\\n' -n 2 echo",
    "xargs -d '\\n' -P 3 -I{} sh -c 'echo \"$1\"' sh {} | sort",
    "md5sum",
    "cat -A",
    "expand -t <number>",
    "pr -t -2",
    "dd bs=7 status=none",
    "split -l <number> - piece. && ls piece.*",
    "timeout 20 cat",
    "stdbuf -o0 cat",
    "(read -r one; echo \"$one\"; cat)",
    "{ sleep 0.01; cat; }",
    "mapfile -t lines; echo ${#lines[@]}",
    "od -c | tail -n 3",
    "shuf --random-source=big",
    "paste - -",
    "cmp - words",
    "sponge=$(cat); echo \"$sponge\" | cksum",
];

const PIPELINES: &[&str] = &[
    "<producer>",
    "<producer> | <filter>",
    "<producer> | <filter> | <filter>",
    "<producer> | <filter> | <filter> | <filter>",
    "{ <producer>; <producer>; } | <filter>",
    "<producer> 2>&1 | <filter>",
];

const SIMPLE: &[&str] = &[
    "<pipeline>",
    "<pipeline>; echo \"status ${PIPESTATUS[-1]}\"",
    "<pipeline> > out; wc -c < out",
    "<pipeline> >> words; tail -n 2 words",
    "<pipeline> | tee one | tee two > /dev/null; cmp one two && echo equal",
    "x=$(<pipeline>); echo \"${#x}\"; set -- $x; echo $#",
    "! <producer> > /dev/null 2>&1; echo $?",
    "cp -r tree copied; rm -rf tree/1; diff -r tree copied; mv copied tree/again",
    "ln -f words hard; ln -sf hard soft; stat -c '%h %F' hard soft; rm -f words; cat soft | wc -l",
    "chmod 640 table; touch -d @<number>00000 table; stat -c '%a %Y' table",
    "mkdir -p a/b/c && touch a/b/c/{1,2,3} && find a | sort && rmdir a/b; rm -r a",
    "truncate -s <number>000 hole; stat -c %s hole; cp --sparse=always hole hole2; cmp hole hole2 && rm hole hole2",
    "dd if=/dev/zero of=zeros bs=1000 count=<number> conv=fsync status=none; cksum zeros",
    "sed -i 's/a/<number>/' words table; cksum words table",
    "tar cf t.tar tree --owner=0 --group=0 --mtime=@0 --sort=name; mkdir u; tar xf t.tar -C u; ls -R u | wc -l; rm -rf u t.tar",
    "exec 4> four; echo <word> >&4; exec 4>&-; cat four",
    "exec 5<> words; read -r line <&5; echo \"$line\"; exec 5>&-",
    "sh -c 'exit <number>'; echo $?",
    "sh -c 'kill -<signal> $$'; echo $?",
    "timeout -s <signal> 0.05 sleep 5; echo $?",
    "(trap 'echo got <signal>' <signal>; kill -<signal> $BASHPID; echo after); echo $?",
    "trap 'echo leaving $?' EXIT",
    "sleep 0.02 & wait $!; echo $?",
    "(sleep 0.01; exit <number>) & wait $!; echo waited $?",
    // Not INT or QUIT, which a job ignores as soon as it runs.
    "sleep 30 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; kill -<deadly> $!; wait $! 2> /dev/null; echo $?",
    "for s in <number> <number>; do (exit $s) & done; wait; echo all",
    "cat <<END | <filter>\n<word> $((<number> * <number>)) $(echo <word>)\nEND",
    "cat <<'END'\n$literal `text`\nEND",
    "tr a-z b-za <<< <word>",
    "false || <producer>",
    "true && <producer>",
    // All is read, or the writer might fail, or not.
    "mkfifo f; (<producer> > f) & cat < f | <filter>; wait; rm -f f",
    "flock lock sh -c '<producer>'; ls lock",
    "nice -n 3 nice",
    "setsid -w sh -c 'echo in a session; exit <number>'; echo $?",
    "nohup echo <word> 2> /dev/null",
    "python3 -c 'import multiprocessing as m; p = m.get_context(\"fork\").Pool(2); print(p.map(abs, range(-<number>, 2)))'",
    "python3 -c 'import threading as t; r = []; a = [t.Thread(target=r.append, args=(i,)) for i in range(<number>)]; [x.start() for x in a]; [x.join() for x in a]; print(sorted(r))'",
    "python3 -c 'import os, signal; signal.signal(10, lambda *a: print(\"handled\", a[0])); os.kill(os.getpid(), 10); os.abort() if <number> == 3 else 0'",
    "perl -e '$SIG{ALRM} = sub { print \"rang\\n\"; exit <number> }; alarm 0; use Time::HiRes; Time::HiRes::ualarm(2000); sleep 5'; echo $?",
    "git init -q g && cd g && echo <word> > f && git add f && git commit -qm <word>; git status --short; git log --format='%s %T'; cd ..; rm -rf g",
    "git -C repository checkout -q -b b<number> && echo <word> >> repository/f && git -C repository diff --stat; git -C repository checkout -q -f main",
    "coproc { tr a-z A-Z; }; echo <word> >&${COPROC[1]}; eval \"exec ${COPROC[1]}>&-\"; cat <&${COPROC[0]}; wait",
    "ulimit -f 1; head -c 3000 big > small; stat -c %s small",
    "(ulimit -n 20; cat words | head -n 1)",
    "umask 077; echo > private; stat -c %a private",
    "bash -c 'set -e; false; echo unreached'; echo $?",
    "bash -c 'set -o pipefail; false | true; echo $?; set -u; echo $unset_one' 2> /dev/null; echo $?",
    "sh ./script.sh <word> <word>; ./script.sh <number>; echo $?",
    "./none 2> /dev/null; echo $?",
    "readlink -f tree/link | sed 's/.*place//'",
    "kill -0 $$ && echo alive; pgrep -x no-such-name || echo nobody",
    "cd tree && <producer>; cd .. || exit",
    "sqlite3 d.db 'create table if not exists t(a); insert into t values (<number>), (<number>); select sum(a) from t;'",
];

const STATEMENTS: &[&str] = &[
    "<simple>",
    "<simple>",
    "<simple>",
    "<pipeline>",
    "for i in 1 2 <number>; do\n<statement>\ndone",
    "if <producer> > /dev/null 2>&1; then <statement>\nelse <statement>\nfi",
    "(\n<statement>\n<statement>\n)",
    "{\n<statement>\n} 2>&1 | <filter>",
    "n=0; while [ $n -lt 3 ]; do n=$((n + 1))\n<statement>\ndone",
    "case <word> in a*) echo a;; *) <statement>\n;; esac",
    "f() {\n<statement>\n}\nf; f | <filter>",
    "eval 'echo evaluated; <producer>'",
    "(\n<statement>\n) & wait $!; echo status $?",
    "out=$(\n<statement>\n); echo \"$out\" | md5sum",
];
