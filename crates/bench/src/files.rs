//! `tern bench files`: whole programs that read, write, make and remove files, each natively and
//! placed in turn.

use crate::figures::{Bench, Figure};
use crate::run::timed;
use crate::{Error, On};
use std::path::Path;
use std::process::{Command, Stdio};

/// A shell script that is measured. `NEEDS` is the program without which it is left out.
struct Script {
    name: &'static str,
    needs: &'static str,
    lines: &'static str,
}

/// Makes the files that the scripts read, once, in the benchmark's directory.
const PREPARE: &str = "
mkdir tree; for d in 1 2 3; do mkdir tree/$d; for f in $(seq 20); do head -c 20000 /dev/urandom > tree/$d/$f; done; done
tar cf tree.tar tree
base64 -w 70 /dev/urandom | head -c $BIG > lines
git init -q repository 2> /dev/null && cp -r tree repository && cd repository && git add . && git -c user.name=x -c user.email=x@y commit -qm one || true";

const SCRIPTS: [Script; 11] = [
    Script {
        name: "300 small files made and removed",
        needs: "sh",
        lines: "mkdir s; for i in $(seq 300); do echo x > s/$i; done; rm s/*; rmdir s",
    },
    Script {
        name: "20000 writes of 100 bytes",
        needs: "dd",
        lines: "dd if=/dev/zero of=w bs=100 count=20000 status=none; rm w",
    },
    Script {
        name: "5000 lines appended",
        needs: "sh",
        lines: "i=0; while [ $i -lt 5000 ]; do echo line; i=$((i + 1)); done >> a; rm a",
    },
    Script {
        name: "a big file written and synced",
        needs: "dd",
        lines: "dd if=/dev/zero of=b bs=1M count=$MIB conv=fsync status=none; rm b",
    },
    Script { name: "a big file read", needs: "cat", lines: "cat lines > /dev/null" },
    Script { name: "sort with temporary files", needs: "sort", lines: "sort -S 8M -T . lines > sorted; rm sorted" },
    Script { name: "cp -r and rm -r of 60 files", needs: "cp", lines: "cp -r tree copy; rm -r copy" },
    Script { name: "tar -x of 60 files", needs: "tar", lines: "mkdir t; tar -C t -xf tree.tar; rm -r t" },
    Script { name: "find, warm", needs: "find", lines: "find /usr/share/doc > /dev/null" },
    Script { name: "git clone", needs: "git", lines: "git clone -q repository clone; rm -rf clone" },
    Script {
        name: "make of small files",
        needs: "make",
        lines: "printf 'all: $(patsubst %%,%%.o,%s)\\n%%.o:\\n\\techo $@ > $@\\n' \"$(seq -s' ' 40)\" > Makefile; make -r -s; rm *.o",
    },
];

/// Runs all measurements.
pub fn measure(args: &On, run_dir: &Path) -> Result<Vec<Figure>, Error> {
    let mut bench = Bench::new(args, run_dir)?;
    let (big, mib) = bench.quick_or(("20000000", "50"), ("120000000", "300"));
    let variables = format!("BIG={big}; MIB={mib}; cd '{}'; set -e;", bench.dir.display());
    let prepare = ["sh".to_owned(), "-c".to_owned(), format!("{variables}{PREPARE}")];
    timed(&crate::run::Where::Native, &prepare, Some(Stdio::null()))?;
    let samples = bench.quick_or(2, 5);
    for script in &SCRIPTS {
        if Command::new(script.needs).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            continue;
        }
        let argv = ["sh".to_owned(), "-c".to_owned(), format!("{variables}{}", script.lines)];
        bench.compare(
            script.name,
            "ms",
            samples,
            1.0,
            |place| Ok(timed(place, &argv, Some(Stdio::null()))?.0 / 1e3),
        )?;
    }
    Ok(bench.figures())
}
