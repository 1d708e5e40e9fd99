//! Output for people and programs: tables, JSON lines, CSV, Prometheus' text and SVG.

pub mod csv;
pub mod json;
pub mod prometheus;
pub mod svg;
pub mod table;
pub mod view;

/// Makes text safe for a terminal: names of programs and sockets may hold anything.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
