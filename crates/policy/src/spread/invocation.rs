//! A program and its arguments, as far as they tell what it will do.

/// So many options tell programs of one name apart.
const OPTIONS_MAX: usize = 8;
/// Longest part of a key, bytes.
const PART_BYTES: usize = 64;

/// Programs that start others and wait for them: they stay, and what they start is looked at.
const STARTERS: &[&str] = &[
    "ash",
    "autoconf",
    "autoheader",
    "automake",
    "autoreconf",
    "bash",
    "bazel",
    "busybox",
    "bwrap",
    "cargo",
    "ccache",
    "chroot",
    "cmake",
    "cpack",
    "ctest",
    "dash",
    "dpkg-buildpackage",
    "env",
    "fakeroot",
    "fish",
    "gmake",
    "ionice",
    "just",
    "ksh",
    "libtool",
    "make",
    "meson",
    "nice",
    "ninja",
    "nohup",
    "parallel",
    "pkexec",
    "rustup",
    "sccache",
    "scons",
    "script",
    "setpriv",
    "setsid",
    "sh",
    "stdbuf",
    "su",
    "sudo",
    "taskset",
    "tern",
    "time",
    "timeout",
    "tmux",
    "unbuffer",
    "unshare",
    "waf",
    "watch",
    "xargs",
    "zsh",
];

/// Helpers that are over soon, whatever their arguments.
const HELPERS: &[&str] = &[
    "[",
    "ar",
    "arch",
    "awk",
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "cp",
    "cut",
    "date",
    "diff",
    "dirname",
    "echo",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "file",
    "find",
    "gawk",
    "git",
    "grep",
    "head",
    "hostname",
    "id",
    "install",
    "ldconfig",
    "ln",
    "ls",
    "mawk",
    "mkdir",
    "mktemp",
    "mv",
    "nm",
    "objcopy",
    "pkg-config",
    "printf",
    "pwd",
    "ranlib",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sleep",
    "sort",
    "stat",
    "strip",
    "tail",
    "tee",
    "test",
    "touch",
    "tput",
    "tr",
    "true",
    "tty",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
];

/// Compilers and linkers.
const COMPILERS: &[&str] = &[
    "c++", "cc", "clang", "clang++", "cpp", "f77", "f95", "g++", "gcc", "gdc", "gfortran", "ghc", "gnat", "ldc2",
    "lld", "mold", "nvcc", "ocamlopt", "rustc", "tcc",
];

/// Programs whose work is that of a script, their first argument that is no option.
const INTERPRETERS: &[&str] = &["guile", "lua", "node", "perl", "php", "python", "ruby", "tclsh"];

/// A judgement of a program by its name and arguments alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Starts other programs: stays.
    Starter,
    /// Is over soon: stays.
    Helper,
    /// Compiles or links something.
    Compiler,
    /// Nothing is known.
    Other,
}

/// A program that is to be executed.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// Path of its file.
    pub path: &'a str,
    /// File name of the interpreter, if the file is a script.
    pub interpreter: Option<&'a str>,
    /// Its arguments, without its name.
    pub arguments: &'a [&'a str],
}

impl Invocation<'_> {
    /// Tells what the program is.
    pub fn kind(&self) -> Kind {
        let name = base_name(self.path);
        let interpreter = self.interpreter.map(base_name);
        let script = self.script().map(base_name);
        let is_one_of = |list: &[&str]| list.contains(&name) || script.is_some_and(|script| list.contains(&script));
        if is_one_of(STARTERS) || interpreter.is_some_and(|name| STARTERS.contains(&name)) {
            Kind::Starter
        } else if HELPERS.contains(&name) {
            Kind::Helper
        } else if COMPILERS.contains(&name) {
            if self.compiles() { Kind::Compiler } else { Kind::Helper }
        } else {
            Kind::Other
        }
    }

    /// Gives a word for programs that probably run for as long as this one.
    pub fn key(&self) -> String {
        let mut options: Vec<&str> = self
            .arguments
            .iter()
            .filter(|word| word.len() > 1 && word.starts_with('-'))
            .map(|word| option(word))
            .collect();
        options.sort_unstable();
        options.dedup();
        options.truncate(OPTIONS_MAX);
        let name = base_name(self.path);
        let parts = [name].into_iter().chain(self.script()).chain(options);
        parts.map(|part| cut(part, PART_BYTES)).collect::<Vec<_>>().join(" ")
    }

    /// The script that an interpreter is told to run.
    fn script(&self) -> Option<&str> {
        let interprets = INTERPRETERS.contains(&base_name(self.path));
        interprets.then(|| self.arguments.iter().find(|word| !word.starts_with('-')).copied()).flatten()
    }

    /// A compiler that is asked for its version or its directories reads no source and writes no
    /// file.
    fn compiles(&self) -> bool {
        let asks = |word: &&str| {
            word.starts_with("--print") || word.starts_with("-print") || word.starts_with("-dump") || **word == *"-vV"
        };
        let names_file = |word: &&str| !word.starts_with('-') && **word != *"/dev/null";
        self.arguments.iter().any(names_file) && !self.arguments.iter().any(asks)
    }
}

/// The option without its value: of `-Iinclude` `-I`, of `--std=c11` `--std`.
fn option(word: &str) -> &str {
    if word.starts_with("--") { word.split('=').next().unwrap_or(word) } else { cut(word, 2) }
}

/// The file name without a target before it and a version behind it: of
/// `/usr/bin/x86_64-linux-gnu-gcc-12` `gcc`, of `python3.11` `python`.
fn base_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_version = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let name = match name.rsplit_once('-') {
        Some((before, version)) if !before.is_empty() && is_version(version) => before,
        _ => name,
    };
    let tail = name.rsplit('-').next().unwrap_or(name);
    if COMPILERS.contains(&tail) {
        return tail;
    }
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if INTERPRETERS.contains(&stem) { stem } else { name }
}

/// At most so many bytes.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(path: &'a str, arguments: &'a [&'a str]) -> Invocation<'a> {
        Invocation { path, interpreter: None, arguments }
    }

    #[test]
    fn kinds() {
        assert_eq!(of("/usr/bin/gcc", &["-c", "a.c"]).kind(), Kind::Compiler);
        assert_eq!(of("/usr/bin/x86_64-linux-gnu-g++-12", &["-o", "a", "a.o"]).kind(), Kind::Compiler);
        assert_eq!(of("gcc", &["--version"]).kind(), Kind::Helper);
        assert_eq!(of("gcc", &["-print-file-name=libc.a", "x"]).kind(), Kind::Helper);
        assert_eq!(of("rustc", &["-vV"]).kind(), Kind::Helper);
        assert_eq!(of("/bin/sh", &["-c", "x"]).kind(), Kind::Starter);
        assert_eq!(of("/usr/bin/python3.11", &["/usr/bin/meson", "setup"]).kind(), Kind::Starter);
        assert_eq!(of("./simulate", &["7"]).kind(), Kind::Other);
        assert_eq!(Invocation { interpreter: Some("bash"), ..of("./configure", &[]) }.kind(), Kind::Starter);
        assert_eq!(of("/usr/bin/rm", &["-f", "x"]).kind(), Kind::Helper);
        assert_eq!(of("/usr/bin/c89-1", &[]).kind(), Kind::Other);
    }

    #[test]
    fn a_key_has_no_values() {
        let one = of("/usr/bin/gcc", &["-Ia", "-c", "a.c", "-o", "a.o", "-O2", "--std=c11"]);
        let other = of("gcc-12", &["-O0", "-Ib", "-Ic", "--std=c99", "-c", "b.c", "-o", "b.o"]);
        assert_eq!(one.key(), "gcc --std -I -O -c -o");
        assert_eq!(one.key(), other.key());
        assert_eq!(of("python3", &["-u", "gen.py", "-n", "5"]).key(), "python gen.py -n -u");
        assert_ne!(of("python3", &["a.py"]).key(), of("python3", &["b.py"]).key());
        assert_eq!(of("ä", &["-ß"]).key(), "ä -");
    }
}
