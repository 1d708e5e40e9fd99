//! Closing what may have to wait for somebody. The last descriptor of a pipe's end is closed under
//! the pipe's lock, and a reader holds that while it waits for a page of its buffer that follows it
//! (pipe_release and anon_pipe_read in fs/pipe.c): whoever receives that page must not be the one
//! that waits.

use std::sync::mpsc::channel;
use std::time::Duration;

/// So long what comes next waits for it: but for such readers it is done at once, and found done.
const WITHIN: Duration = Duration::from_millis(100);

/// Has this done, before the caller goes on if it does not have to wait.
pub fn briefly(close: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let work = move || {
        close();
        // Nobody waits for it any more if it took long.
        let _ = done.send(());
    };
    match std::thread::Builder::new().name("closing".into()).spawn(work) {
        // Late or not, it will be closed.
        Ok(_) => drop(is_done.recv_timeout(WITHIN)),
        Err(e) => tracing::error!("no thread to close a file: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, nothing came from the room any more, and the reader waited for ever.
    #[test]
    fn who_waits_long_is_not_waited_for() {
        let (go_on, waits) = channel();
        let (done, is_done) = channel();
        briefly(move || {
            waits.recv().unwrap();
            done.send(()).unwrap();
        });
        go_on.send(()).unwrap();
        is_done.recv().unwrap();
    }

    #[test]
    fn what_does_not_wait_is_found_done() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        assert!(os::fds::is_pipe(std::os::fd::AsFd::as_fd(&writer)));
        briefly(move || drop(writer));
        assert_eq!(std::io::Read::read(&mut reader, &mut [0]).unwrap(), 0);
    }
}
