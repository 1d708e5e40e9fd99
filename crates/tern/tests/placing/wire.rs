//! What the network between nodes shows.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::Lab;

use crate::{lab, wait_for};

const MARKER: &[u8] = b"a secret of the guest, 5fe3c0b1";

/// A socket that gets every frame of the switch (man 7 packet).
fn capture(lab: &Lab) -> OwnedFd {
    lab.in_switch(|| {
        let every = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: a plain system call; the descriptor is fresh and owned here alone.
        let socket = unsafe {
            let raw = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(every));
            assert!(raw >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(raw)
        };
        // So that nothing is lost while the reader waits for a CPU; and so that the reader sees its
        // end.
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(Duration::from_millis(50)),
        )
        .unwrap();
        socket
    })
    .unwrap()
}

/// Frames with the marker, and all frames, that pass while `work` runs.
fn frames_during(lab: &Lab, work: impl FnOnce()) -> (usize, usize) {
    let socket = capture(lab);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut frame = vec![0; 1 << 16];
            let (mut marked, mut all) = (0, 0);
            // Daemons never fall silent: after the work, a second is enough for what is still in
            // the socket.
            let mut end = None;
            loop {
                let at_end = end.is_some_and(|end: Instant| end.elapsed() > Duration::from_secs(1));
                if end.is_none() && done.load(Ordering::Acquire) {
                    end = Some(Instant::now());
                }
                // SAFETY: the buffer is writable for its length.
                let got = unsafe { libc::recv(socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
                if let Ok(length) = usize::try_from(got) {
                    all += 1;
                    marked += usize::from(frame[..length].windows(MARKER.len()).any(|w| w == MARKER));
                }
                if at_end {
                    return (marked, all);
                }
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Release);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        reader.join().unwrap()
    })
}

#[test]
fn the_capture_sees_what_is_not_encrypted() {
    let lab = lab(2);
    let place = (lab.state().node("n2").unwrap().address, 5002);
    let listener = lab.in_network("n2", || TcpListener::bind(place).unwrap()).unwrap();
    let (marked, _) = frames_during(&lab, || {
        let mut stream = lab.in_network("n1", || TcpStream::connect(place).unwrap()).unwrap();
        stream.write_all(MARKER).unwrap();
        drop(stream);
        let (mut accepted, _) = listener.accept().unwrap();
        std::io::copy(&mut accepted, &mut std::io::sink()).unwrap();
    });
    assert!(marked > 0);
}

#[test]
fn nothing_of_a_guest_passes_in_plain() {
    let lab = lab(2);
    let text = MARKER.repeat(1000);
    let (marked, all) = frames_during(&lab, || {
        let script = "cd /tmp && exec tern run --on n2 -- tee written";
        let output = lab.exec_with("n1", ["sh", "-c", script], &text).unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, text);
        let marker = String::from_utf8(MARKER.into()).unwrap();
        let output =
            lab.exec("n1", ["tern", "run", "--on", "n2", "--", "grep", "-c", &marker, "/tmp/written"]).unwrap();
        assert_eq!(output.text(), "1");
        let output = lab.exec("n1", ["tern", "run", "--on", "n2", "--", "sh", "-c", &format!(": {marker}")]).unwrap();
        assert!(output.status.success(), "{output:?}");
    });
    assert!(all > 20, "the room's traffic passes the switch");
    assert_eq!(marked, 0, "of {all} frames");
    wait_for("the file", || std::fs::read(lab.root("n1").unwrap().join("tmp/written")).unwrap() == text);
}
