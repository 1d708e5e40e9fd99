//! The heap of a real program, as content for moved memory: random bytes do not compress, and real
//! ones do.

use crate::Error;
use crate::checkpoint::each_block;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;

/// A heap in a file.
#[derive(Debug)]
pub struct Heap {
    pub path: PathBuf,
    /// Description of the program.
    pub of: String,
}

/// Writes the anonymous memory of this process to `path`, except pages of zeros, which are never
/// sent.
pub fn keep(pid: i32, path: &Path) -> Result<Heap, Error> {
    let failed = || Error::system(format!("keeping the heap of {pid} in {}", path.display()));
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).map_err(failed())?;
    let mut file = File::create(path).map_err(failed())?;
    let mut pages = 0u64;
    let written = each_block(pid, has_no_name, |block| {
        block.chunks(PAGE).filter(|page| page.iter().any(|byte| *byte != 0)).try_for_each(|page| {
            pages += 1;
            file.write_all(page)
        })
    });
    written.map_err(failed())?;
    if pages == 0 {
        return Err(failed()(std::io::Error::other("it has none")));
    }
    Ok(Heap { path: path.to_owned(), of: format!("heap of {} ({} MiB)", name.trim(), (pages * PAGE as u64) >> 20) })
}

/// Tells whether a line of proc_pid_maps(5) shows memory without a file, or the heap of brk(2).
fn has_no_name(line: &str) -> bool {
    let name = line.split_ascii_whitespace().nth(5);
    name.is_none_or(|name| name == "[heap]" || name.starts_with("[anon:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_heap_is_kept_without_its_zeros() {
        let path = std::env::temp_dir().join(format!("tern-bench-heap-{}", std::process::id()));
        let marked: String = (0..30_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        let mut command = Command::new("sh");
        let shell = command.args(["-c", "read x; echo has it; read y"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.as_mut().unwrap().write_all(format!("{marked}\n").as_bytes()).unwrap();
        let mut said = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let heap = keep(shell.id() as i32, &path);
        let kept = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(heap.unwrap().of.starts_with("heap of sh"));
        assert!(kept.len().is_multiple_of(PAGE) && kept.chunks(PAGE).all(|page| page.iter().any(|b| *b != 0)));
        assert!(kept.windows(marked.len()).any(|found| found == marked.as_bytes()));
        assert!(keep(0, &path).is_err());
    }

    #[test]
    fn memory_of_files_is_not_a_heap() {
        assert!(has_no_name("7f00-7f01 rw-p 00000000 00:00 0 "));
        assert!(has_no_name("7f00-7f01 rw-p 00000000 00:00 0                          [heap]"));
        assert!(!has_no_name("7f00-7f01 rw-p 00000000 08:01 77                         /lib/libc.so.6"));
        assert!(!has_no_name("7f00-7f01 rw-p 00000000 00:00 0                          [stack]"));
    }
}
