//! The log of a PVM daemon: what it writes after `tickle 1` (its hosts) and `tickle 2` (its tasks),
//! as src/host.c and src/task.c of PVM 3.4 print it.

/// Packets that wait in a daemon for a host or a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// For whom they wait.
    pub receiver: Receiver,
    /// Packets that wait.
    pub packets: u64,
    /// Bytes that wait, if the daemon tells.
    pub bytes: Option<u64>,
    /// Estimated round-trip time to a host, microseconds.
    pub round_trip_us: Option<u64>,
}

/// For whom packets wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Receiver {
    /// For the daemon of a host.
    Host(String),
    /// For a local task.
    Task {
        /// Its number in PVM.
        tid: u32,
        /// PID of the task.
        pid: i32,
    },
}

/// Reads a log that comes in parts. Each table is told once it is complete, which shows by the
/// daemon's next answer.
#[derive(Debug, Default)]
pub struct LogReader {
    /// A line that has not ended yet.
    begun: String,
    table: Table,
    rows: Vec<Waiting>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Table {
    #[default]
    None,
    Hosts,
    Tasks,
}

/// A line longer than this is none of the daemon's.
const LINE_BYTES_MAX: usize = 16 << 10;
/// A table with more rows is none of the daemon's.
const ROWS_MAX: usize = 16 << 10;

impl LogReader {
    /// Takes a part of the log. Gives the rows of the tables that are complete.
    pub fn add(&mut self, text: &str) -> Vec<Waiting> {
        let mut complete = Vec::new();
        for piece in text.split_inclusive('\n') {
            if self.begun.len() + piece.len() <= LINE_BYTES_MAX {
                self.begun.push_str(piece);
            }
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.begun);
                self.line(without_prefix(line.trim_end()), &mut complete);
            }
        }
        complete
    }

    fn line(&mut self, line: &str, complete: &mut Vec<Waiting>) {
        let line = line.trim_start();
        if line.starts_with("ht_dump()") || line.starts_with("task_dump()") || line.starts_with("tm_tickle()") {
            complete.append(&mut self.rows);
            self.table = match line.as_bytes() {
                [b'h', ..] => Table::Hosts,
                [b't', b'a', ..] => Table::Tasks,
                _ => Table::None,
            };
            return;
        }
        match self.table {
            Table::None => {}
            Table::Hosts => self.host_line(line),
            Table::Tasks => self.task_line(line),
        }
        self.rows.truncate(ROWS_MAX);
    }

    fn host_line(&mut self, line: &str) {
        if line.starts_with("hd_dump()") {
            let name = line.split_once(" n \"").and_then(|(_, rest)| rest.split_once('"')).map_or("", |(name, _)| name);
            let receiver = Receiver::Host(name.into());
            self.rows.push(Waiting { receiver, packets: 0, bytes: None, round_trip_us: None });
        } else if let Some(row) = self.rows.last_mut() {
            if let Some(packets) = behind(line, " txq ").and_then(|word| word.parse().ok()) {
                row.packets = packets;
            }
            if let Some(time) = behind(line, " rtt ").and_then(microseconds) {
                row.round_trip_us = Some(time);
            }
        }
    }

    fn task_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let hexadecimal = |index: usize| words.get(index).and_then(|word| u32::from_str_radix(word, 16).ok());
        if let (11, Some(tid), Some(pid)) = (words.len(), hexadecimal(0), words.get(3).and_then(|w| w.parse().ok())) {
            let receiver = Receiver::Task { tid, pid };
            self.rows.push(Waiting { receiver, packets: 0, bytes: Some(0), round_trip_us: None });
        } else if let (6, Some(_), Some(bytes)) =
            (words.len(), hexadecimal(1), words.get(4).and_then(|word| word.parse::<u64>().ok()))
            && let Some(row) = self.rows.last_mut()
        {
            row.packets += 1;
            row.bytes = row.bytes.map(|before| before.saturating_add(bytes));
        }
    }
}

/// Cuts `[t80040000] 11/29 12:50:38 ` off.
fn without_prefix(line: &str) -> &str {
    let rest = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, rest)| rest);
    let mut words = rest.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(day), Some(time), Some(text)) if day.contains('/') && time.contains(':') => text,
        _ => rest,
    }
}

/// The word behind another one.
fn behind<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.split_once(word)?.1.split_ascii_whitespace().next()
}

/// Reads seconds with six decimal places.
fn microseconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part.parse().ok().filter(|_| part.len() == 6)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
[t80040000] 11/29 12:50:38 tm_tickle() # 1
[t80040000] 11/29 12:50:38 ht_dump() ser 1 last 1 cnt 1 master 1 cons 1 local 1 narch 1
[t80040000] 11/29 12:50:38  hd_dump() ref 1 t 0x40000 n \"vm\" a \"\" ar \"LINUX64\" dsig 0x408c41
[t80040000] 11/29 12:50:38            lo \"\" so \"\" dx \"\" ep \"$HOME/pvm3\" bx \"x\" wd \"/root\" sp 1000
[t80040000] 11/29 12:50:38            sa 127.0.0.1:60527 mtu 4080 f 0x0 e 0 txq 17
[t80040000] 11/29 12:50:38            tx 1 rx 1 rtt 1.000250 id \"\"
[t80040000] 11/29 12:50:38 tm_tickle() # 2
[t80040000] 11/29 12:50:38 task_dump()
[t80040000] 11/29 12:50:38      tid     ptid flag    pid soc out     wait   outtid   trctid    sched   es
[t80040000] 11/29 12:50:38    40001        0    4  18227   5  -1        0        0        0        0    0
[t80040000] 11/29 12:50:38  txq:pkt      src      dst flag    len    ofs
[t80040000] 11/29 12:50:38 1c05f2a0    40002    40001    3   4080     32
[t80040000] 11/29 12:50:38 1c05f2b0    40002    40001    2    100     32
[t80040000] 11/29 12:50:38 tm_tickle() # 5
";

    #[test]
    fn tables_are_understood() {
        let mut reader = LogReader::default();
        let rows = reader.add(LOG);
        let (hosts, tasks) = rows.split_at(1);
        assert_eq!(
            hosts,
            [Waiting {
                receiver: Receiver::Host("vm".into()),
                packets: 17,
                bytes: None,
                round_trip_us: Some(1_000_250)
            }]
        );
        let receiver = Receiver::Task { tid: 0x40001, pid: 18227 };
        assert_eq!(tasks, [Waiting { receiver, packets: 2, bytes: Some(4180), round_trip_us: None }]);
    }

    #[test]
    fn a_log_may_come_in_any_parts() {
        let expected = LogReader::default().add(LOG);
        for at in 0..LOG.len() {
            let mut reader = LogReader::default();
            let found = [reader.add(&LOG[..at]), reader.add(&LOG[at..])].concat();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_table_that_is_cut_off_is_not_told() {
        let cut = LOG.len() - "[t80040000] 11/29 12:50:38 tm_tickle() # 5\n".len();
        assert_eq!(LogReader::default().add(&LOG[..cut]).len(), 1);
    }

    #[test]
    fn hostile_logs_do_no_harm() {
        let mut reader = LogReader::default();
        let row = "task_dump()\n".to_owned() + &"1 0 4 5 5 -1 0 0 0 0 0\n".repeat(20_000) + &"x".repeat(100_000) + "\n";
        reader.add(&row);
        assert_eq!(reader.add("tm_tickle() # 5\n").len(), ROWS_MAX);
        reader.add("hd_dump() n \"\nrtt 99999999999999999999.000000\n txq -1\n[]\n");
    }
}
