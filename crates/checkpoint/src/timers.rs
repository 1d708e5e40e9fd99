//! POSIX timers (timer_create(2)): listing those of a process, stopping them, and creating them
//! under the same ids.

use crate::error::{BodyError, stays};
use image::{Image, Timer};
use os::inject::{Batch, Inside};

/// Bytes of `struct itimerspec`.
const SETTING_BYTES: usize = 32;
/// The kernel's number of CLOCK_PROCESS_CPUTIME_ID for the calling process.
const OWN_CPU_TIME: i32 = -6;
const SIGEV_THREAD_ID: i32 = 4;
/// The most timers that are created to reach an id, on kernels without a way to choose it.
const TRIES_MAX: usize = 4096;

/// Lists the timers of process `pid`, without their settings. `home` gives each thread's id at
/// home.
pub fn timers(pid: i32, home: &dyn Fn(i32) -> Result<i32, BodyError>) -> Result<Vec<Timer>, BodyError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/timers")).unwrap_or_default();
    let mut found = Vec::new();
    for words in format!("\n{text}").split("\nID:").skip(1) {
        let Some(mut timer) = timer(words) else { return stays("it has a POSIX timer of an unknown kind") };
        if timer.clock < 0 && timer.clock != OWN_CPU_TIME {
            return stays("it has a POSIX timer on another process' or thread's clock");
        }
        if timer.notify & SIGEV_THREAD_ID != 0 {
            timer.tid = home(timer.tid)?;
        }
        found.push(timer);
    }
    found.sort_by_key(|t| t.id);
    Ok(found)
}

/// Parses ` 60\nsignal: 14/00007fff8c07e038\nnotify: signal/pid.2634\nClockID: 0\n`
/// (proc_pid_timers(5)).
fn timer(text: &str) -> Option<Timer> {
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let (signal, value) = field("signal")?.split_once('/')?;
    let (how, whom) = field("notify")?.split_once('/')?;
    let notify = ["signal", "none", "thread"].iter().position(|known| *known == how)? as i32;
    let (kind, tid) = whom.split_once('.')?;
    Some(Timer {
        id: text.lines().next()?.trim().parse().ok()?,
        clock: field("ClockID")?.parse().ok()?,
        signal: signal.parse().ok()?,
        value: u64::from_str_radix(value, 16).ok()?,
        notify: notify | if kind == "tid" { SIGEV_THREAD_ID } else { 0 },
        tid: tid.parse().ok()?,
        setting: [0; 4],
    })
}

/// Stops the timers, and notes their settings.
pub fn stop(inside: &mut Inside, timers: &mut [Timer]) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    let none = batch.space(SETTING_BYTES);
    let place = batch.space(SETTING_BYTES * timers.len());
    for (n, timer) in (0..).zip(timers.iter()) {
        let was = place + n * SETTING_BYTES as u64;
        batch.must("stopping timers", libc::SYS_timer_settime, [timer.id as u64, 0, none, was, 0, 0]);
    }
    inside.run(&batch)?;
    for (n, timer) in (0..).zip(timers) {
        for (i, word) in (0..).zip(&mut timer.setting) {
            *word = inside.memory().word(place + n * SETTING_BYTES as u64 + 8 * i)?;
        }
    }
    Ok(())
}

/// Sets the timers to their settings.
pub fn arm(batch: &mut Batch, timers: &[Timer]) {
    for timer in timers.iter().filter(|t| t.setting[2..] != [0, 0]) {
        let bytes: Vec<u8> = timer.setting.iter().flat_map(|w| w.to_le_bytes()).collect();
        let setting = batch.put(&bytes);
        batch.may(libc::SYS_timer_settime, [timer.id as u64, 0, setting, 0, 0, 0]);
    }
}

/// Creates the image's timers in process `pid`, not set yet. Existing timers of the image are used;
/// others are deleted.
pub fn make(pid: i32, inside: &mut Inside, image: &Image) -> Result<(), BodyError> {
    let wanted = &image.process.timers;
    let present: Vec<i32> = timers(pid, &Ok)?.iter().map(|t| t.id).collect();
    let mut batch = inside.batch();
    for id in present.iter().filter(|id| wanted.iter().all(|t| t.id != **id)) {
        batch.may(libc::SYS_timer_delete, [*id as u64, 0, 0, 0, 0, 0]);
    }
    if !batch.is_empty() {
        inside.run(&batch)?;
    }
    let missing: Vec<&Timer> = wanted.iter().filter(|t| !present.contains(&t.id)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // Since Linux 6.15 the caller may choose the id.
    const PR_TIMER_CREATE_RESTORE_IDS: u64 = 77;
    let chooses = inside.call(libc::SYS_prctl, [PR_TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0, 0])? == 0;
    let made = missing.iter().try_for_each(|timer| if chooses { choose(inside, timer) } else { count(inside, timer) });
    if chooses {
        inside.call(libc::SYS_prctl, [PR_TIMER_CREATE_RESTORE_IDS, 0, 0, 0, 0, 0])?;
    }
    made
}

fn choose(inside: &mut Inside, timer: &Timer) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    let id = batch.put(&timer.id.to_le_bytes());
    create(&mut batch, timer, id);
    inside.run(&batch)?;
    Ok(())
}

/// Creates timers until the id is reached: older kernels count upwards.
fn count(inside: &mut Inside, timer: &Timer) -> Result<(), BodyError> {
    for _ in 0..TRIES_MAX {
        let mut batch = inside.batch();
        let id = batch.space(8);
        create(&mut batch, timer, id);
        inside.run(&batch)?;
        let got = inside.memory().word(id)? as i32;
        if got == timer.id {
            return Ok(());
        }
        inside.must("deleting a timer", libc::SYS_timer_delete, [got as u64, 0, 0, 0, 0, 0])?;
        if got > timer.id {
            break;
        }
    }
    stays(format!("it has POSIX timer {}, an id that this kernel cannot assign", timer.id))
}

fn create(batch: &mut Batch, timer: &Timer, id: u64) {
    // The words of `struct sigevent`: value, signal, notification, thread, padding.
    let mut event = [0; 64];
    event[..8].copy_from_slice(&timer.value.to_le_bytes());
    event[8..12].copy_from_slice(&timer.signal.to_le_bytes());
    event[12..16].copy_from_slice(&timer.notify.to_le_bytes());
    event[16..20].copy_from_slice(&timer.tid.to_le_bytes());
    let event = batch.put(&event);
    batch.must("making a POSIX timer", libc::SYS_timer_create, [timer.clock as u64, event, id, 0, 0, 0]);
}

/// Drops pending signals of the process' own timers, and sets these timers to expire at once. If
/// the signals were sent again, the timers would not count overruns any more.
pub fn fire_again(image: &mut Image) {
    let timers = &mut image.process.timers;
    let mut waits = |info: &Vec<u8>| {
        const SI_TIMER: i32 = -2;
        let word = |at: usize| info.get(at..at + 4).map_or(0, |b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let own = timers.iter_mut().find(|t| word(8) == SI_TIMER && word(16) == t.id);
        // Expires after one nanosecond.
        own.map(|timer| timer.setting[2..].copy_from_slice(&[0, 1])).is_none()
    };
    image.process.pending.retain(&mut waits);
    image.threads.iter_mut().for_each(|t| t.pending.retain(&mut waits));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_waits_is_the_timers_own() {
        let mut image = Image::default();
        image.process.timers = vec![timer(" 3\nsignal: 14/0\nnotify: signal/pid.1\nClockID: 1\n").unwrap()];
        let info = |code: i32, id: i32| {
            let mut info = vec![0; 128];
            info[8..12].copy_from_slice(&code.to_le_bytes());
            info[16..20].copy_from_slice(&id.to_le_bytes());
            info
        };
        image.process.pending = vec![info(-2, 3), info(-2, 4), info(-1, 3)];
        fire_again(&mut image);
        assert_eq!(image.process.pending, [info(-2, 4), info(-1, 3)]);
        assert_eq!(image.process.timers[0].setting, [0, 0, 0, 1]);
    }

    #[test]
    fn lines_of_the_kernel_are_parsed() {
        let found = timer(" 60\nsignal: 14/00007fff8c07e038\nnotify: signal/tid.2634\nClockID: 1\n").unwrap();
        let value = 0x7fff_8c07_e038;
        let wanted = Timer { id: 60, clock: 1, signal: 14, value, notify: 4, tid: 2634, setting: [0; 4] };
        assert_eq!(found, wanted);
        assert_eq!(timer(" 1\nsignal: 1/0\nnotify: invented/pid.1\nClockID: 0\n"), None);
    }
}
