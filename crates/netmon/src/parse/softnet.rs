//! /proc/net/softnet_stat: the packets that each processor has received.
//!
//! Columns are hexadecimal; `softnet_seq_show` in net/core/net-procfs.c writes them.

/// A processor's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Number of the processor.
    pub cpu: u32,
    /// Packets that came.
    pub processed: u64,
    /// Packets that were dropped because the queue was full.
    pub dropped: u64,
    /// Times at which the time was over before the work was done.
    pub squeezed: u64,
    /// Packets that wait; `None` before Linux 5.10.
    pub waiting: Option<u64>,
}

/// Reads the file. Lines that are too short are left out.
pub fn read(text: &str) -> Vec<Softnet> {
    const WAITING_AT: usize = 11;
    const CPU_AT: usize = 12;
    let line = |(number, line): (usize, &str)| {
        let words: Option<Vec<u64>> = line.split_ascii_whitespace().map(|w| u64::from_str_radix(w, 16).ok()).collect();
        let words = words?;
        Some(Softnet {
            cpu: words.get(CPU_AT).map_or(number as u32, |cpu| *cpu as u32),
            processed: *words.first()?,
            dropped: *words.get(1)?,
            squeezed: *words.get(2)?,
            waiting: words.get(WAITING_AT).copied(),
        })
    };
    text.lines().enumerate().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text =
            "00000012 00000001 00000002 0 0 0 0 0 0 0 0 0000000a 00000003 00000004 00000006\nbad\n00000005 0 0\n";
        let found = read(text);
        assert_eq!(found[0], Softnet { cpu: 3, processed: 18, dropped: 1, squeezed: 2, waiting: Some(10) });
        assert_eq!((found.len(), found[1].cpu, found[1].waiting), (2, 2, None));
    }
}
