//! The view of the live table, and the keys that change it.

/// The order of the table's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// From the program down to the wire.
    #[default]
    Layer,
    /// The fullest queues first.
    Fill,
    /// The longest queues first.
    Now,
    /// Those that were the longest first.
    Peak,
}

impl Sort {
    fn next(self) -> Sort {
        match self {
            Sort::Layer => Sort::Fill,
            Sort::Fill => Sort::Now,
            Sort::Now => Sort::Peak,
            Sort::Peak => Sort::Layer,
        }
    }

    /// Gives the name, as the table's head has it.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Layer => "layer",
            Sort::Fill => "fill",
            Sort::Now => "now",
            Sort::Peak => "peak",
        }
    }
}

/// The choice of lines in the live table, and their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The order of lines.
    pub sort: Sort,
    /// Only lines with this text are shown.
    pub filter: String,
    /// The table stays as it is; the recording goes on.
    pub is_frozen: bool,
    /// Keys belong to the filter.
    pub is_typing: bool,
    /// The user wants to end.
    pub wants_end: bool,
}

/// The longest filter, characters.
const FILTER_MAX: usize = 60;

impl View {
    /// Obeys a key. Tells whether the table is to be renewed.
    pub fn press(&mut self, key: u8) -> bool {
        const ESCAPE: u8 = 27;
        const ERASE: [u8; 2] = [8, 127];
        match (self.is_typing, key) {
            (true, b'\r' | b'\n') => self.is_typing = false,
            (true, ESCAPE) => (self.is_typing, self.filter) = (false, String::new()),
            (true, key) if ERASE.contains(&key) => drop(self.filter.pop()),
            (true, b' '..=b'~') if self.filter.len() < FILTER_MAX => self.filter.push(char::from(key)),
            (false, b's') => self.sort = self.sort.next(),
            (false, b'f' | b'/') => self.is_typing = true,
            (false, ESCAPE) => self.filter.clear(),
            (false, b' ' | b'p') => self.is_frozen = !self.is_frozen,
            (false, b'q') => self.wants_end = true,
            _ => return false,
        }
        true
    }

    /// Gives the line that says what the keys do.
    pub fn help(&self) -> String {
        let filter = match (self.is_typing, self.filter.as_str()) {
            (true, text) => format!("filter: {text}_ (Enter, Esc)"),
            (false, "") => "f filter".into(),
            (false, text) => format!("f filter ({text}; Esc clears it)"),
        };
        let frozen = if self.is_frozen { "space goes on (frozen)" } else { "space freezes" };
        format!("s sort ({})  {filter}  {frozen}  q ends\n", self.sort.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_the_view() {
        let mut view = View::default();
        "s/tcq x\u{7f}\r p".bytes().for_each(|key| assert!(view.press(key)));
        // Two more keys: frozen, and not any more.
        let expected = View { sort: Sort::Fill, filter: "tcq ".into(), ..View::default() };
        assert_eq!(view, expected);
        assert!(view.help().contains("sort (fill)") && view.help().contains("(tcq ; Esc"));
        assert!(!view.press(b'\t') && view.press(27) && view.press(b'q') && view.press(b' '));
        assert_eq!((view.filter.as_str(), view.wants_end, view.is_frozen), ("", true, true));
    }

    #[test]
    fn a_filter_is_short_and_has_no_control_characters() {
        let mut view = View::default();
        view.press(b'f');
        for key in 0..200 {
            view.press(key);
        }
        for _ in 0..200 {
            view.press(b'a');
        }
        assert!(view.filter.len() <= FILTER_MAX && view.filter.chars().all(|c| !c.is_control()));
    }
}
