//! Users and groups of this machine by their names. A static program has no name service but the
//! files passwd(5) and group(5).

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Gives the number of a user, by name or number.
pub(crate) fn user(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| named(&std::fs::read_to_string(USERS).ok()?, name))
}

/// Gives the number of a group, by name or number.
pub(crate) fn group(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| named(&std::fs::read_to_string(GROUPS).ok()?, name))
}

/// Gives the name of a group.
pub(crate) fn name_of_group(group: u32) -> Option<String> {
    let text = std::fs::read_to_string(GROUPS).ok()?;
    let number = group.to_string();
    let line = text.lines().find(|line| line.split(':').nth(2) == Some(number.as_str()))?;
    line.split(':').next().map(str::to_owned)
}

fn named(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let text = "root:x:0:\nhpc:x:207:a,b\nodd\n";
        assert_eq!((named(text, "hpc"), named(text, "none"), named(text, "odd")), (Some(207), None, None));
    }
}
