//! `tern bench citizen`: families of placed processes, beside the same natively.

use crate::figures::{Bench, Figure, number};
use crate::guest::echo;
use crate::run::{Where, guest, guest_with, timed};
use crate::wire::close_rooms;
use crate::{Error, On};
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs all measurements.
pub fn measure(args: &On, run_dir: &Path) -> Result<Vec<Figure>, Error> {
    let mut bench = Bench::new(args, run_dir)?;
    bench.families()?;
    bench.talk()?;
    bench.calls()?;
    bench.sprite()?;
    bench.build()?;
    Ok(bench.figures())
}

impl Bench<'_> {
    fn families(&mut self) -> Result<(), Error> {
        let n = self.quick_or("50", "1000");
        self.inner("fork + exit + wait", "us", &["fork", n], 1e3, number(n))?;
        self.inner("vfork + exec + wait", "us", &["vfork", n], 1e3, number(n))?;
        self.inner("thread made and joined", "us", &["thread", n], 1e3, number(n))
    }

    fn talk(&mut self) -> Result<(), Error> {
        let n = self.quick_or("1000", "20000");
        self.inner("pipe there and back, in the room", "us", &["pipe", n], 1e3, number(n))?;
        self.inner("socket there and back, in the room", "us", &["socket", n], 1e3, number(n))?;
        let mib = self.quick_or("64", "1024");
        self.inner("stream through a pipe, in the room", "us/MiB", &["pipe-stream", mib], 1e3 * number(mib), 1.0)?;
        let samples = self.quick_or(2, 5);
        self.compare("pipe there and back, one end at home", "us", samples, number(n), |place| {
            Ok(guest_with(place, &["ping", n], |from, to| drop(echo(from, to)))? / 1e3)
        })?;
        let blocks = self.quick_or("1000", "16384");
        self.inner("stream to a pipe at home", "us/MiB", &["write", "65536", blocks], 1e3 / 16.0, number(blocks))
    }

    /// Measures a call that only home can answer, beside the bare round trip: the native column is
    /// a TCP connection to the node, made by the two kernels alone.
    fn calls(&mut self) -> Result<(), Error> {
        let n = self.quick_or("1000", "20000");
        let Some(node) = address(&self.args.on) else { return Ok(()) };
        let samples = self.quick_or(2, 5);
        self.compare("getppid, beside a bare round trip", "us", samples, number(n), |place| match place {
            Where::Native => round_trip_us(node),
            Where::On(_) => Ok(guest(place, &["getppid", n], None)? / 1e3),
        })
    }

    /// Measures the programs of Sprite's Figure 3 in today's terms (Douglis and Ousterhout 1991).
    fn sprite(&mut self) -> Result<(), Error> {
        let samples = self.quick_or(1, 5);
        if Command::new("groff").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok() {
            let text = self.write_file("terns.7", troff(self.quick_or(500, 5000)).as_bytes())?;
            let argv = ["groff", "-man", "-Tutf8", &text].map(str::to_owned);
            self.compare("formatter", "ms", samples, 1.0, |place| Ok(timed(place, &argv, None)?.0 / 1e3))?;
        }
        let mib = self.quick_or(16, 256);
        let (from, to) = (self.write_file("from", &noise(mib << 20))?, self.dir.join("to").display().to_string());
        self.compare("copy of a file", "ms", samples, 1.0, |place| {
            Ok(guest(place, &["copy", &from, &to], None)? / 1e6)
        })?;
        self.whole("fork x 1000", &["fork", "1000"])?;
        self.whole("clock_gettime x 10000", &["clock", "10000"])
    }

    /// Measures from the start of the program to its end.
    fn whole(&mut self, name: &'static str, words: &[&str]) -> Result<(), Error> {
        let samples = self.quick_or(1, 5);
        self.compare(name, "ms", samples, 1.0, |place| {
            let start = Instant::now();
            guest(place, words, None)?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        })
    }

    /// Measures `make -j2` of a C project of many files.
    fn build(&mut self) -> Result<(), Error> {
        let is_there = |program| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
        if !is_there("make") || !is_there("gcc") {
            return Ok(());
        }
        let project = self.dir.join("project");
        project_in(&project, self.quick_or(6, 60)).map_err(Error::system("writing a C project"))?;
        let make = ["make", "-s", "-j2", "-B", "-C", &project.display().to_string()].map(str::to_owned);
        let samples = self.quick_or(1, 3);
        self.compare("make of a C project, warm", "ms", samples, 1.0, |place| Ok(timed(place, &make, None)?.0 / 1e3))?;
        let (run_dir, on) = (self.run_dir.to_owned(), self.args.on.clone());
        self.compare("make of a C project, cold", "ms", samples, 1.0, |place| {
            if matches!(place, Where::On(_)) {
                close_rooms(&run_dir, &on);
                timed(place, &["/bin/true".to_owned()], Some(Stdio::null()))?;
            }
            Ok(timed(place, &make, None)?.0 / 1e3)
        })
    }
}

/// Finds where the node's daemon listens, by `tern nodes`.
fn address(node: &str) -> Option<SocketAddr> {
    let out = Command::new(crate::run::tern().ok()?).args(["nodes", "--json"]).output().ok()?;
    let nodes: serde_json::Value = serde_json::from_slice(&out.stdout).ok()?;
    let rows = nodes.as_array().or_else(|| nodes["nodes"].as_array())?;
    rows.iter().find(|row| row["name"] == node)?["address"].as_str()?.parse().ok()
}

fn round_trip_us(node: SocketAddr) -> Result<f64, Error> {
    const TIMES: u32 = 200;
    let start = Instant::now();
    for _ in 0..TIMES {
        TcpStream::connect(node).map_err(Error::system(format!("connecting to {node}")))?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES))
}

fn troff(paragraphs: u32) -> String {
    let mut text = String::from(".TH TERNS 7\n.SH BIRDS\n");
    for i in 0..paragraphs {
        let _ = writeln!(
            text,
            ".PP\nThe Arctic tern of paragraph {i} migrates further than any other animal, from pole to pole and back,\n\
             and comes home each year; \\fIit\\fP has seen {i} summers."
        );
    }
    text
}

/// Generates bytes that do not compress, the same every time (xorshift).
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(bytes / 8).flatten().collect()
}

fn project_in(dir: &Path, files: u32) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut makefile = String::from("OBJECTS =");
    for i in 0..files {
        let mut source = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
        for f in 0..60 {
            let _ = writeln!(
                source,
                "int f{i}_{f}(int a, const char *s) {{ char b[64]; snprintf(b, sizeof b, \"%d %s\", a, s); \
                 for (size_t k = 0; k < strlen(b); k++) a = a * 31 + b[k]; return abs(a) % ({f} + 7); }}"
            );
        }
        fs::write(dir.join(format!("m{i}.c")), source)?;
        let _ = write!(makefile, " m{i}.o");
    }
    makefile.push_str("\nlibproject.a: $(OBJECTS)\n\tar rcs $@ $(OBJECTS)\n%.o: %.c\n\tgcc -O1 -c $< -o $@\n");
    fs::write(dir.join("Makefile"), makefile)
}
