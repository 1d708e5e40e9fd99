//! The documentation page `docs/SYSCALLS.md`, from the rows.

use core::fmt::{self, Write};

use crate::{Class, Row, TABLE, When};

const HEAD: &str = "# System calls of a guest

Do not edit this page: it is written from the table in `crates/systable`, by
`TERN_REWRITE=1 cargo test -p systable --test page`.

| where | meaning |
| --- | --- |
| local | the hosting kernel alone; the filter lets the number through |
| home | the deputy at home makes the same call |
| special | code of its own in the warden; `clone` and its kin, `rt_sigtimedwait`, and duplicates of stand-ins in the tracer |
| goes home | the process goes home and makes the call there; if it cannot go, the call fails with the error given, and `tern why` names it |
| refused | could be made at home alone, but programs try it only to see whether it is there, and do without: it fails with the error given |
| none | there is no such call |

*or local*: depending on the arguments the call is purely local.
";

/// Writes the page.
///
/// # Errors
/// Whatever the writer says.
pub fn write(out: &mut impl Write) -> fmt::Result {
    out.write_str(HEAD)?;
    counts(out)?;
    out.write_str("\n| number | call | where | why |\n| --- | --- | --- | --- |\n")?;
    TABLE.iter().try_for_each(|row| line(out, row))
}

fn counts(out: &mut impl Write) -> fmt::Result {
    let of = |wanted: fn(&Row) -> bool| TABLE.iter().filter(|row| !row.name.is_empty() && wanted(row)).count();
    let local = of(|row| row.class == Class::Local && row.duplicates == When::NEVER);
    let partly = of(|row| row.when != When::Always || row.duplicates != When::NEVER);
    let go_home = of(|row| matches!(row.class, Class::GoHome(_)));
    let calls = of(|row| row.class != Class::Unused);
    writeln!(out, "\n{calls} calls: {local} local, {partly} more local but for some arguments; {go_home} go home.")
}

fn line(out: &mut impl Write, row: &Row) -> fmt::Result {
    if row.name.is_empty() {
        return writeln!(out, "| {}-{} | | none | {} |", row.nr, row.last, row.why);
    }
    let word =
        if row.class == Class::Local && row.duplicates != When::NEVER { "special or local" } else { word(row.class) };
    write!(out, "| {} | `{}` | {word}", row.nr, row.name)?;
    if row.when != When::Always {
        out.write_str(" or local")?;
    }
    if let Class::GoHome(errno) | Class::Refused(errno) = row.class {
        write!(out, " ({})", errno.name())?;
    }
    writeln!(out, " | {} |", row.why)
}

const fn word(class: Class) -> &'static str {
    match class {
        Class::Local => "local",
        Class::Home => "home",
        Class::Special(_) => "special",
        Class::GoHome(_) => "goes home",
        Class::Refused(_) => "refused",
        Class::Unused => "none",
    }
}
