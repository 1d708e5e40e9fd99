//! What tern spends of a machine to be fast, and its owner may forbid: power and memory.
//!
//! `ternd --without` tells its stewards and wardens by an environment variable ([`FORBIDDEN`]):
//! they are processes of their own, and outlive their daemon.

use std::sync::OnceLock;

/// The environment variable that holds what is forbidden: names, with commas between them.
pub const FORBIDDEN: &str = "TERN_WITHOUT";

/// One thing that is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expense {
    /// Idle processors do not sleep during the moments in which threads wait for each other
    /// ([`crate::awake`]): power.
    Wakefulness,
    /// Memory that is full arrives in huge pages though its program did not ask for them: memory
    /// that the program gives back in part stays taken.
    HugePages,
}

impl Expense {
    /// Every expense that can be forbidden.
    pub const ALL: [Expense; 2] = [Expense::Wakefulness, Expense::HugePages];

    /// Gives the name by which an owner forbids it.
    pub fn name(self) -> &'static str {
        match self {
            Expense::Wakefulness => "awake",
            Expense::HugePages => "huge-pages",
        }
    }

    /// Tells whether the owner of this machine allows it.
    pub fn is_allowed(self) -> bool {
        static SAID: OnceLock<String> = OnceLock::new();
        !is_named(SAID.get_or_init(|| std::env::var(FORBIDDEN).unwrap_or_default()), self)
    }
}

fn is_named(list: &str, expense: Expense) -> bool {
    list.split(',').any(|name| name.trim() == expense.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_forbids_what_it_names() {
        assert!(is_named("awake, huge-pages", Expense::HugePages));
        assert!(is_named("awake", Expense::Wakefulness));
        assert!(!is_named("awake", Expense::HugePages));
        assert!(!is_named("", Expense::Wakefulness));
    }
}
