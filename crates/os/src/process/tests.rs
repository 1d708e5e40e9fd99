use super::*;

#[test]
fn cpu_time_is_exact() {
    let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id() as i32;
    // More often than the ticks of /proc/PID/stat are.
    let seen: std::collections::BTreeSet<u64> = (0..2000)
        .filter_map(|_| {
            std::thread::sleep(std::time::Duration::from_micros(200));
            cpu_us(pid).ok()
        })
        .take_while(|us| *us < 50_000)
        .collect();
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(seen.len() > 10 && seen.iter().any(|us| us % 10_000 != 0), "{seen:?}");
    assert!(cpu_us(pid).is_err(), "it has gone");
}

#[test]
fn reads_itself() {
    let me = std::process::id() as i32;
    let status = status(me).unwrap();
    assert_eq!(status.tgid, me);
    assert_eq!(status.ns_tids.last(), Some(&me));
    assert_eq!(limits(me).unwrap().len(), 16);
    assert_eq!(limits::by_file(me).unwrap(), limits_by_call(me).unwrap());
    assert!(descriptors(me).unwrap().contains(&0));
    assert!(arguments(me).unwrap().ends_with(&[0]));
    times(me).unwrap();
    // SAFETY: asks only.
    assert_eq!(personality(me).unwrap() as i32, unsafe { libc::personality(0xffff_ffff) });
}

#[test]
fn odd_status_is_refused() {
    assert_eq!(parse_status(|_| None), None);
    assert_eq!(parse_status(|_| Some("x")), None);
}
