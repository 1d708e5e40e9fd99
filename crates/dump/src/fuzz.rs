//! Fuzzing of dumps that a hostile user wrote, up to the point where a process would be made. Fuzz
//! targets and tests call this.

/// Reads and lists a stream that may be a dump.
///
/// # Panics
/// A dump that was read is not what it seems.
pub fn stream(input: &[u8]) {
    let bytes = image::fuzz::dump_bytes(input);
    let Ok(listing) = crate::list(bytes.as_slice()) else { return };
    assert!(listing.shown().lines().all(|line| !line.chars().any(char::is_control)), "the terminal is steered");
    assert!(listing.json()["files"].is_array());
}

#[cfg(test)]
mod tests {
    proptest::proptest! {
        #[test]
        fn any_stream_is_refused_or_listed(input in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            super::stream(&input);
        }
    }
}
