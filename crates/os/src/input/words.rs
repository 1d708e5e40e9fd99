//! Findings in words.

/// Says how many there are, and names the first ones.
pub(super) fn counted(names: &[String]) -> String {
    const NAMED_MAX: usize = 4;
    let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
    format!("{} ({}{more})", names.len(), names[..names.len().min(NAMED_MAX)].join(", "))
}
