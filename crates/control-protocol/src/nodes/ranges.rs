//! Numbers in brackets: `n[2-4,7]` stands for n2, n3, n4 and n7.

/// Cuts a text at its commas, but not at those in brackets.
pub fn parts(text: &str) -> Result<Vec<&str>, &'static str> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if inside => return Err("brackets cannot lie in brackets"),
            '[' => inside = true,
            ']' if !inside => return Err("] without ["),
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("[ without ]");
    }
    parts.push(&text[begin..]);
    if parts.iter().any(|part| part.is_empty()) {
        return Err("a name is missing");
    }
    Ok(parts)
}

/// Gives every name that a part stands for; more than `most` are an error.
pub fn expand(part: &str, most: usize) -> Result<Vec<String>, &'static str> {
    let Some((before, rest)) = part.split_once('[') else { return Ok(vec![part.to_owned()]) };
    let (list, behind) = rest.split_once(']').ok_or("[ without ]")?;
    let (mut names, tails) = (Vec::new(), expand(behind, most)?);
    for range in list.split(',') {
        for number in numbers(range, most)? {
            for tail in &tails {
                names.push(format!("{before}{number}{tail}"));
            }
            if names.len() > most {
                return Err("too many nodes");
            }
        }
    }
    Ok(names)
}

/// Numbers of `2-4` or `7`, filled with zeros to the width of the first one.
fn numbers(range: &str, most: usize) -> Result<Vec<String>, &'static str> {
    const WRONG: &str = "numbers such as 2-4,7 are expected between brackets";
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let is_number = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(first) || !is_number(last) {
        return Err(WRONG);
    }
    let (from, to): (u32, u32) = (first.parse().map_err(|_| WRONG)?, last.parse().map_err(|_| WRONG)?);
    if from > to {
        return Err("the first number of a range is the smaller one");
    }
    if (to - from) as usize >= most {
        return Err("too many nodes");
    }
    let width = if first.starts_with('0') { first.len() } else { 1 };
    Ok((from..=to).map(|number| format!("{number:0width$}")).collect())
}
