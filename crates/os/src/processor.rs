//! Running on one processor for a moment (sched_setaffinity(2)).

/// Runs `work` in this thread on processor `number`; `None` if the thread may not run there.
pub fn on<T>(number: usize, work: impl FnOnce() -> T) -> Option<T> {
    // SAFETY: all zero is an empty set.
    let (mut before, mut one): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let bytes = size_of::<libc::cpu_set_t>();
    (number < libc::CPU_SETSIZE as usize).then_some(())?;
    // SAFETY: sets of the stated size, and a number inside them.
    unsafe {
        libc::CPU_SET(number, &mut one);
        if libc::sched_getaffinity(0, bytes, &mut before) != 0 || libc::sched_setaffinity(0, bytes, &one) != 0 {
            return None;
        }
    }
    let result = work();
    // SAFETY: as above.
    unsafe { libc::sched_setaffinity(0, bytes, &before) };
    Some(result)
}
