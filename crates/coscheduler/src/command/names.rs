//! The names of jobs: numbers of processes, or names of programs.

/// The kernel keeps so many bytes of a program's name.
const NAME_BYTES: usize = 15;

/// Finds the processes that a word names: the number of one, or the name of a program that some of
/// this user run (all processes, for root).
///
/// # Errors
/// There is none, in words.
pub fn resolve(words: &[String]) -> Result<Vec<i32>, String> {
    let mut pids = Vec::new();
    for word in words {
        match word.parse() {
            Ok(pid) => pids.push(pid),
            Err(_) => pids.extend(named(word)?),
        }
    }
    Ok(pids)
}

fn named(name: &str) -> Result<Vec<i32>, String> {
    let user = rustix::process::geteuid().as_raw();
    let is_mine =
        |pid: i32| user == 0 || os::process::status(pid).is_ok_and(|status| os::process::owner(&status.uid) == user);
    let kept = name.bytes().take(NAME_BYTES);
    let is_it =
        |pid: &i32| os::process::line(*pid).is_ok_and(|line| line.state != 'Z' && line.name.bytes().eq(kept.clone()));
    let found: Vec<i32> = os::process::all().unwrap_or_default().into_iter().filter(is_it).collect();
    let found: Vec<i32> = found.into_iter().filter(|pid| is_mine(*pid)).collect();
    if found.is_empty() { Err(format!("no process has the number or the name {name}")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_names_are_looked_up() {
        let own = std::process::id() as i32;
        let name = os::process::line(own).unwrap().name;
        let found = resolve(&["7".into(), name]).unwrap();
        assert!(found[0] == 7 && found.contains(&own), "{found:?}");
        assert!(resolve(&["no-such-program".into()]).unwrap_err().contains("no-such-program"));
    }
}
