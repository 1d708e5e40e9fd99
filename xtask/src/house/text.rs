//! Rules of lines: how wide comments and Markdown are, and that a doc comment says something.

use super::{Breach, Rule, Source};

/// The widest that a line of a comment or of Markdown may be, characters.
const WIDTH_MAX: usize = 100;
/// The least words that a doc comment has.
const DOC_WORDS_MIN: usize = 3;

/// Checks the lines of a file.
pub fn check(source: &Source, breaches: &mut Vec<Breach>) {
    if source.syntax.is_none() {
        wide_markdown(source, breaches);
        return;
    }
    let mut doc: Option<(usize, usize)> = None;
    for (number, line) in source.text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") && line.chars().count() > WIDTH_MAX {
            breaches.push(breach(Rule::Width, source, number, "a comment over 100 characters"));
        }
        match (trimmed.strip_prefix("///"), &mut doc) {
            (Some(text), Some((_, words))) => *words += text.split_whitespace().count(),
            (Some(text), none) => *none = Some((number, text.split_whitespace().count())),
            (None, some) => end_of_doc(some.take(), source, breaches),
        }
    }
}

fn end_of_doc(doc: Option<(usize, usize)>, source: &Source, breaches: &mut Vec<Breach>) {
    if let Some((line, words)) = doc
        && words < DOC_WORDS_MIN
    {
        breaches.push(breach(Rule::DocWords, source, line, "a doc comment of fewer than three words"));
    }
}

/// Tables, code and links cannot be wrapped.
fn wide_markdown(source: &Source, breaches: &mut Vec<Breach>) {
    let mut in_code = false;
    for (number, line) in source.text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        let is_fixed = in_code || line.starts_with('|') || line.starts_with('[') || !line.trim().contains(' ');
        if !is_fixed && line.chars().count() > WIDTH_MAX {
            breaches.push(breach(Rule::Width, source, number, "a line over 100 characters"));
        }
    }
}

/// A breach in the line of this index.
fn breach(rule: Rule, source: &Source, index: usize, says: &str) -> Breach {
    Breach { rule, file: source.file.clone(), line: index + 1, says: says.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(file: &str, text: &str) -> Vec<(Rule, usize)> {
        let syntax = file.ends_with(".rs").then(|| syn::parse_file("").unwrap());
        let source = Source { file: file.into(), text: text.into(), syntax };
        let mut breaches = Vec::new();
        check(&source, &mut breaches);
        breaches.iter().map(|breach| (breach.rule, breach.line)).collect()
    }

    #[test]
    fn comments_are_narrow_and_say_something() {
        let wide = "x".repeat(100);
        assert_eq!(rules("a.rs", &format!("// {wide}\nlet a = \"{wide}\";\n")), [(Rule::Width, 1)]);
        assert_eq!(
            rules("a.rs", "\n/// The process.\nfn a() {}\n/// It\n/// moves there.\nfn b() {}"),
            [(Rule::DocWords, 2)]
        );
    }

    #[test]
    fn markdown_is_narrow_where_it_can_be() {
        let wide = "word ".repeat(30);
        assert_eq!(
            rules("a.md", &format!("{wide}\n| {wide} |\n```\n{wide}\n```\n{wide}")),
            [(Rule::Width, 1), (Rule::Width, 6)]
        );
    }
}
