use std::collections::BTreeMap;
use std::io::{BufRead, Write};

/// Counts words of standard input with four threads; panics in one of them are caught.
fn main() {
    let lines: Vec<String> = std::io::stdin().lock().lines().map_while(Result::ok).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    std::thread::scope(|scope| {
        let parts = lines.chunks(lines.len().div_ceil(4).max(1)).map(|part| {
            scope.spawn(move || {
                let mut own: BTreeMap<String, usize> = BTreeMap::new();
                for word in part.iter().flat_map(|l| l.split_whitespace()) {
                    *own.entry(word.to_owned()).or_default() += 1;
                }
                own
            })
        });
        for part in parts.collect::<Vec<_>>() {
            for (word, count) in part.join().unwrap() {
                *counts.entry(word).or_default() += count;
            }
        }
    });
    std::panic::set_hook(Box::new(|_| eprintln!("panicked")));
    let caught = std::thread::spawn(|| std::panic::panic_any(7)).join().is_err();
    let mut out = std::io::stdout().lock();
    for (word, count) in counts.iter().rev().take(20) {
        writeln!(out, "{word} {count}").unwrap();
    }
    writeln!(out, "{caught} {}", std::thread::available_parallelism().is_ok()).unwrap();
    std::process::exit(3);
}
