//! `tern usage`.

use std::collections::{BTreeMap, BTreeSet};

use control_protocol::tool::{Answer, Request};
use control_protocol::usage::{DayHours, Hours, Row, UsageReport, Used};
use serde::Serialize;

use crate::args::{Usage, UsageBy};
use crate::{Dirs, Error, client, show};

/// The subject of a row: day, user and host, as far as the table tells them apart.
type Key = (Option<u32>, Option<u32>, Option<String>);

/// The use of processors and hosts, at home and away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    home: Used,
    away: Used,
}

/// Shows what users of this home have used.
pub(crate) fn usage(dirs: &Dirs, args: &Usage) -> Result<u8, Error> {
    let Answer::Usage(report) = client::ask(dirs, &Request::Usage { days: args.days })? else {
        return Err(client::unexpected());
    };
    let json = Json::from(&report);
    Ok(crate::show(args.output, &json, || table(&report, &args.by) + "\n" + &hours(&report)))
}

/// The rows of the report, summed up.
fn sums(report: &UsageReport, by: &BTreeSet<UsageBy>) -> BTreeMap<Key, Sum> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for Row { day, user, host, used } in &report.rows {
        let key = (
            by.contains(&UsageBy::Day).then_some(*day),
            by.contains(&UsageBy::User).then_some(*user),
            by.contains(&UsageBy::Host).then(|| host.clone()),
        );
        let sum = sums.entry(key).or_default();
        if *host == report.home { &mut sum.home } else { &mut sum.away }.add(*used);
    }
    sums
}

fn table(report: &UsageReport, by: &[UsageBy]) -> String {
    let by: BTreeSet<UsageBy> = by.iter().copied().collect();
    let titles = [(UsageBy::Day, "DAY"), (UsageBy::User, "USER"), (UsageBy::Host, "HOST")];
    let mut heads: Vec<&str> = titles.iter().filter(|(one, _)| by.contains(one)).map(|(_, title)| *title).collect();
    heads.extend(["HOME CPU", "AWAY CPU", "AWAY", "PLACED", "MOVED", "EVICTED", "HOSTS"]);
    let rows = sums(report, &by).into_iter().map(|((day, user, host), Sum { home, away })| {
        let names = [day.map(date), user.map(|user| user.to_string()), host];
        let mut cells: Vec<String> = names.into_iter().flatten().collect();
        cells.extend([
            time(home.cpu_ms),
            time(away.cpu_ms),
            share(away.cpu_ms, home.cpu_ms + away.cpu_ms),
            away.placed.to_string(),
            away.moved.to_string(),
            (home.evicted + away.evicted).to_string(),
            format!("{} of {}", home.hosts_got, home.hosts_asked),
        ]);
        cells
    });
    show::table(&heads, &rows.collect::<Vec<_>>())
}

/// How this machine spent its time, by day.
fn hours(report: &UsageReport) -> String {
    let cells = report.hours.iter().map(|DayHours { day, hours }| {
        let Hours { hosting_ms, in_use_ms, idle_ms } = *hours;
        let all = hosting_ms + in_use_ms + idle_ms;
        vec![date(*day), share(in_use_ms, all), share(idle_ms, all), share(hosting_ms, all), time(all)]
    });
    show::table(&[report.home.as_str(), "IN USE", "IDLE", "HOSTING", "OF"], &cells.collect::<Vec<_>>())
}

/// A time, short.
fn time(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{:.1}s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{:.1}m", ms as f64 / 6e4),
        _ => format!("{:.1}h", ms as f64 / 3.6e6),
    }
}

fn share(part: u64, all: u64) -> String {
    if all == 0 { "-".into() } else { format!("{:.0}%", part as f64 * 100.0 / all as f64) }
}

/// The date of a day that is counted from 1970-01-01 (Howard Hinnant, `civil_from_days`).
fn date(day: u32) -> String {
    const DAYS_OF_400_YEARS: u32 = 146_097;
    // Years begin with March, so that a leap day is the last one.
    let from_march = day + 719_468;
    let era = from_march / DAYS_OF_400_YEARS;
    let of_era = from_march % DAYS_OF_400_YEARS;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u32::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The report as JSON.
#[derive(Serialize)]
struct Json {
    home: String,
    rows: Vec<JsonRow>,
    hours: Vec<JsonHours>,
}

#[derive(Serialize)]
struct JsonRow {
    day: String,
    user: u32,
    host: String,
    away: bool,
    #[serde(flatten)]
    used: Used,
}

#[derive(Serialize)]
struct JsonHours {
    day: String,
    #[serde(flatten)]
    hours: Hours,
}

impl From<&UsageReport> for Json {
    fn from(report: &UsageReport) -> Json {
        let row = |row: &Row| {
            let Row { day, user, host, used } = row.clone();
            JsonRow { day: date(day), user, away: host != report.home, host, used }
        };
        let hours = report.hours.iter().map(|DayHours { day, hours }| JsonHours { day: date(*day), hours: *hours });
        Json { home: report.home.clone(), rows: report.rows.iter().map(row).collect(), hours: hours.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let dates = [0, 59, 11_016, 19_782, 20_089].map(date);
        assert_eq!(dates, ["1970-01-01", "1970-03-01", "2000-02-29", "2024-02-29", "2025-01-01"]);
    }

    #[test]
    fn rows_are_summed_by_what_is_asked_for() {
        let used = |cpu_ms| Used { cpu_ms, placed: 1, ..Used::default() };
        let row = |day, user, host: &str, cpu_ms| Row { day, user, host: host.into(), used: used(cpu_ms) };
        let rows = vec![row(1, 7, "n1", 1000), row(1, 7, "n2", 3000), row(2, 7, "n2", 500), row(2, 8, "n3", 10)];
        let report = UsageReport { home: "n1".into(), rows, hours: Vec::new() };
        let table = table(&report, &[UsageBy::User]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1][..5], ["7", "1.0s", "3.5s", "78%", "2"]);
        assert_eq!(lines[2][..5], ["8", "0.0s", "0.0s", "100%", "1"]);
        assert_eq!(super::table(&report, &[UsageBy::Day, UsageBy::Host]).lines().count(), 5);
    }
}
