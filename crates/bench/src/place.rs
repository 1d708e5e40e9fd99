//! `tern bench place`: the figures of single programs, each measured natively and placed in turn.

use crate::figures::{Bench, Figure, number};
use crate::run::{Where, guest, timed};
use crate::wire::{Traffic, close_rooms, tally};
use crate::{Error, PlaceArgs};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs all measurements.
pub fn measure(args: &PlaceArgs, run_dir: &Path) -> Result<Vec<Figure>, Error> {
    let mut bench = Bench::new(&args.on, run_dir)?;
    bench.placing(args.stream_mib)?;
    Ok(bench.figures())
}

impl Bench<'_> {
    fn placing(&mut self, stream_mib: u64) -> Result<(), Error> {
        self.null()?;
        let (many, few) = if self.args.quick { ("200000", "4") } else { ("5000000", "20") };
        self.inner("clock_gettime", "ns", &["clock", many], 1.0, number(many))?;
        self.inner("getpid", "ns", &["getpid", many], 1.0, number(many))?;
        self.inner("mmap + touch 16 MiB", "us", &["touch", few], 1e3, number(few))?;
        self.files()?;
        self.output()?;
        self.stream(stream_mib)?;
        self.compile()
    }

    /// Measures starting a program that does nothing: from before the fork until its parent knows
    /// that it ended.
    pub fn null(&mut self) -> Result<(), Error> {
        let argv = ["/bin/true".to_owned()];
        let samples = if self.args.quick { 20 } else { 300 };
        self.compare("null program", "us", samples, 1.0, |place| Ok(timed(place, &argv, Some(Stdio::null()))?.0))
    }

    fn files(&mut self) -> Result<(), Error> {
        let n = if self.args.quick { "20000" } else { "300000" };
        let file = self.write_file("cached", &vec![7; 64 << 10])?;
        self.inner("cached pread 4 KiB", "ns", &["pread", &file, n], 1.0, number(n))?;
        self.inner("cached stat", "ns", &["stat", &file, n], 1.0, number(n))?;
        let count = if self.args.quick { 50u32 } else { 300 };
        let mut round = 0;
        let dir = self.dir.clone();
        let samples = if self.args.quick { 2 } else { 5 };
        self.compare("open + read, uncached", "us", samples, f64::from(count), |place| {
            round += 1;
            let fresh = dir.join(format!("fresh-{round}"));
            fresh_files(&fresh, count)?;
            Ok(guest(place, &["open", &fresh.display().to_string(), &count.to_string()], None)? / 1e3)
        })
    }

    fn output(&mut self) -> Result<(), Error> {
        let n = if self.args.quick { "500" } else { "5000" };
        self.inner("write 64 bytes to a pipe at home", "us", &["write", "64", n], 1e3, number(n))?;
        let samples = if self.args.quick { 2 } else { 5 };
        self.compare("write 64 bytes to a terminal at home", "us", samples, number(n), |place| {
            let terminal = Terminal::open()?;
            Ok(guest(place, &["write", "64", n], Some(terminal.slave()?))? / 1e3)
        })
    }

    fn stream(&mut self, stream_mib: u64) -> Result<(), Error> {
        let mib = if self.args.quick { 64 } else { stream_mib };
        let file = self.dir.join("stream");
        let made =
            Command::new("head").args(["-c", &format!("{mib}M"), "/dev/urandom"]).stdout(create(&file)?).status();
        made.map_err(Error::system("making the file to stream"))?;
        let path = file.display().to_string();
        let (mut native, mut cold, mut warm) = (Vec::new(), Vec::new(), Vec::new());
        let (mut cold_wire, mut warm_wire) = (Traffic::default(), Traffic::default());
        let rounds = if self.args.quick { 1 } else { 3 };
        let rate = |ns: f64| mib as f64 * 1.048_576e3 / (ns / 1e6);
        for _ in 0..rounds {
            native.push(rate(guest(&Where::Native, &["read", &path], None)?));
            close_rooms(self.run_dir, &self.args.on);
            timed(&self.on, &["/bin/true".to_owned()], Some(Stdio::null()))?;
            for (rates, wire) in [(&mut cold, &mut cold_wire), (&mut warm, &mut warm_wire)] {
                let before = tally(self.run_dir);
                rates.push(rate(guest(&self.on, &["read", &path], None)?));
                *wire = tally(self.run_dir).since(&before);
            }
        }
        self.push("stream a file, cold", "MB/s", &native, &cold, cold_wire.over(1.0));
        self.push("stream a file, warm", "MB/s", &native, &warm, warm_wire.over(1.0));
        Ok(())
    }

    /// Measures cc1 of a large C file; skipped where there is no gcc.
    fn compile(&mut self) -> Result<(), Error> {
        let Some(cc1) = program_of_gcc("cc1") else { return Ok(()) };
        let source = self.write_file("big.c", big_c(if self.args.quick { 200 } else { 3000 }).as_bytes())?;
        let out = self.dir.join("big.s").display().to_string();
        let argv: Vec<String> = [cc1.as_str(), "-quiet", "-O1", &source, "-o", &out].map(str::to_owned).to_vec();
        let samples = if self.args.quick { 1 } else { 5 };
        self.compare("compile a big C file, warm", "ms", samples, 1.0, |place| Ok(timed(place, &argv, None)?.0 / 1e3))?;
        let (run_dir, on) = (self.run_dir.to_owned(), self.args.on.clone());
        self.compare("compile a big C file, cold", "ms", samples.min(3), 1.0, |place| {
            if matches!(place, Where::On(_)) {
                close_rooms(&run_dir, &on);
                timed(place, &["/bin/true".to_owned()], Some(Stdio::null()))?;
            }
            Ok(timed(place, &argv, None)?.0 / 1e3)
        })
    }
}

fn create(path: &Path) -> Result<Stdio, Error> {
    Ok(fs::File::create(path).map_err(Error::system(format!("making {}", path.display())))?.into())
}

fn fresh_files(dir: &Path, count: u32) -> Result<(), Error> {
    let failed = || Error::system(format!("making files in {}", dir.display()));
    fs::create_dir_all(dir).map_err(failed())?;
    (0..count).try_for_each(|i| fs::write(dir.join(i.to_string()), [b'y'; 2000])).map_err(failed())
}

fn program_of_gcc(name: &str) -> Option<String> {
    let out = Command::new("gcc").arg(format!("-print-prog-name={name}")).output().ok()?;
    let path = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    path.starts_with('/').then_some(path)
}

/// Generates a large C file without includes.
fn big_c(functions: u32) -> String {
    let mut text = String::new();
    for i in 0..functions {
        let _ = writeln!(
            text,
            "int f{i}(int a, const char *s) {{ int t[16]; for (int k = 0; k < 16; k++) t[k] = a * k + {i}; \
             while (*s) {{ a += t[(*s++ ^ {i}) & 15]; if (a & 1) a ^= {i}; else a = a * 31 + t[a & 15]; }} return a; }}"
        );
    }
    text
}

/// A terminal whose output is read and dropped.
struct Terminal {
    name: PathBuf,
    _reader: std::thread::JoinHandle<()>,
}

impl Terminal {
    fn open() -> Result<Terminal, Error> {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let failed = |e: rustix::io::Errno| Error::System { doing: "opening a terminal".into(), source: e.into() };
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).map_err(failed)?;
        grantpt(&master).map_err(failed)?;
        unlockpt(&master).map_err(failed)?;
        let name = ptsname(&master, Vec::new()).map_err(failed)?.to_string_lossy().into_owned().into();
        // The thread ends when the last holder of the other side is gone.
        let reader = std::thread::spawn(move || {
            let mut block = [0; 4096];
            while matches!(rustix::io::read(&master, &mut block), Ok(n) if n > 0) {}
        });
        Ok(Terminal { name, _reader: reader })
    }

    fn slave(&self) -> Result<Stdio, Error> {
        let open = fs::File::options().read(true).write(true).open(&self.name);
        Ok(open.map_err(Error::system(format!("opening {}", self.name.display())))?.into())
    }
}
