//! The result of a ring whose tasks were moved: what `ends` of `tools.sh` printed.

/// The result of one ring.
#[derive(Debug)]
pub(crate) struct Ring {
    text: String,
    pub(crate) moves: u32,
}

impl Ring {
    /// Reads what `ends` printed. No task may have failed, and no byte may be wrong.
    pub(crate) fn of(text: &str) -> Ring {
        assert!(text.contains("status 0\nall right: "), "{text}");
        let moves = text.lines().find_map(|line| line.strip_suffix(" moves")?.parse().ok()).unwrap();
        println!("{text}");
        Ring { text: text.to_owned(), moves }
    }

    /// Checks that at least so many moves were made.
    pub(crate) fn moved(&self, least: u32) {
        assert!(self.moves >= least, "{}", self.text);
    }
}
