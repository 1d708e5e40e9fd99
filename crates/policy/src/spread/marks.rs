//! Patterns that mark programs as local: they stay home.

/// Patterns, each of which marks programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Vec<String>);

impl Marks {
    /// Takes the patterns of a text: one a line; empty lines, and those that begin with `#`, are
    /// none.
    pub fn add(&mut self, text: &str) {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        self.0.extend(lines.map(str::to_owned));
    }

    /// Tells whether a program stays home: a pattern (`*` stands for any text, `?` for one
    /// character) is its file name, one of its arguments, or the whole command with blanks between.
    pub fn marks(&self, path: &str, arguments: &[&str]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let whole = [&[name], arguments].concat().join(" ");
        self.0.iter().any(|pattern| {
            let is = |text: &str| matches(pattern.as_bytes(), text.as_bytes());
            is(name) || is(&whole) || arguments.iter().any(|word| is(word))
        })
    }
}

/// Tells whether the pattern is the text; each star is tried where it reaches least.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(b'?') => (at, read) = (at + 1, read + 1),
            Some(byte) if *byte == text[read] => (at, read) = (at + 1, read + 1),
            _ => {
                let Some((star_at, reached)) = star else { return false };
                star = Some((star_at, reached + 1));
                (at, read) = (star_at + 1, reached + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_words_and_whole_commands() {
        let mut marks = Marks::default();
        assert!(!marks.marks("/usr/bin/cc", &["-c", "a.c"]));
        marks.add("# tests of sockets\n\n  net_*.o \nld\ncc * -o big?\n");
        assert!(marks.marks("/usr/bin/cc", &["-c", "a.c", "-o", "net_a.o"]));
        assert!(marks.marks("/usr/bin/ld", &[]));
        assert!(marks.marks("/usr/bin/cc", &["a.o", "b.o", "-o", "big1"]));
        assert!(!marks.marks("/usr/bin/cc", &["a.o", "-o", "big12"]));
        assert!(!marks.marks("/usr/bin/ldx", &["# tests"]));
    }

    #[test]
    fn stars() {
        for (pattern, text, is) in [
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYb", false),
            ("**a", "ba", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), is, "{pattern} {text}");
        }
        assert!(!matches("*a*a*a*a*a*a*a*b".as_bytes(), "a".repeat(2000).as_bytes()));
    }
}
