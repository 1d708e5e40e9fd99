//! The time of day where this machine is.

/// Gives the minute of the day by the machine's time zone, from 0 on.
pub fn minute_of_day() -> u16 {
    let local = local(now());
    u16::try_from(local.tm_hour * 60 + local.tm_min).unwrap_or(0)
}

/// Gives the number of the day by the machine's time zone, counted from 1970-01-01.
pub fn day() -> u32 {
    const DAY_S: i64 = 86_400;
    let now = now();
    u32::try_from((now + local(now).tm_gmtoff) / DAY_S).unwrap_or(0)
}

/// Seconds since 1970.
fn now() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

fn local(now: i64) -> libc::tm {
    // SAFETY: zeros are a valid `tm`; the kernel is not asked, and both places are ours.
    unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut local);
        local
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_day_has_1440_minutes() {
        assert!(super::minute_of_day() < 1440);
        assert!(super::day() > 20_000);
    }
}
