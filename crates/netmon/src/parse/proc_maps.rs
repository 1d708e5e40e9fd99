//! /proc/PID/maps: where files are in a process's memory (proc_pid_maps(5)).

/// A mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address in memory.
    pub start: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Path of the file, as the process sees it.
    pub path: String,
}

/// Reads the mappings of files. Other lines are left out.
pub fn read(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (range, _permissions, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2)?.trim_start();
    let start = u64::from_str_radix(range.split_once('-')?.0, 16).ok()?;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    path.starts_with('/').then(|| Mapping { start, offset, path: path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_files_are_found() {
        let text = "7f00-8000 r--p 00001000 fe:00 123    /usr/lib/a b.so\n0-1 rw-p 00000000 00:00 0 [heap]\nbad\n\
            1-2 rw-p 00000000 00:00 0 \n";
        assert_eq!(read(text), [Mapping { start: 0x7f00, offset: 0x1000, path: "/usr/lib/a b.so".into() }]);
    }
}
