use super::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::AsFd;

fn pair(kind: i32) -> [OwnedFd; 2] {
    let kind = SocketType::from_raw(kind as u32);
    let (a, b) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    [a, b]
}

fn inode(socket: &OwnedFd) -> u64 {
    rustix::fs::fstat(socket).unwrap().st_ino
}

fn send(socket: &OwnedFd, bytes: &[u8]) {
    assert_eq!(rustix::net::send(socket, bytes, rustix::net::SendFlags::empty()), Ok(bytes.len()));
}

fn seen(socket: &OwnedFd, shut: u8) -> Waiting {
    let socket = socket.as_fd();
    waiting(socket, kind(socket).unwrap(), shut, 1 << 20).unwrap()
}

const KINDS: [i32; 3] = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET];

#[test]
fn who_is_whose_peer() {
    let diagnosis = Diagnosis::of(std::process::id() as i32).unwrap();
    for kind in KINDS {
        let [a, b] = pair(kind);
        assert_eq!(diagnosis.ask(inode(&a)).unwrap(), Told { peer: Some(inode(&b)), shut: 0, waiting_bytes: 0 });
        shut(a.as_fd(), NO_MORE_GOES).unwrap();
        assert_eq!(diagnosis.ask(inode(&a)).unwrap().shut, NO_MORE_GOES);
        let mirrored = if kind == libc::SOCK_DGRAM { 0 } else { NO_MORE_COMES };
        assert_eq!(diagnosis.ask(inode(&b)).unwrap().shut, mirrored);
        drop(a);
        assert_eq!(diagnosis.ask(inode(&b)).unwrap().peer, None);
    }
    assert_eq!(diagnosis.ask(0x7fff_ffff).unwrap_err().errno(), libc::ENOENT);
}

#[test]
fn what_waits_is_seen_twice_and_delivered() {
    for kind in KINDS {
        let ([a, b], [c, d]) = (pair(kind), pair(kind));
        assert_eq!(seen(&b, 0), Waiting::Known(Vec::new()));
        let long = vec![7; 150_000];
        [&b"abc"[..], b"d", &long].iter().for_each(|bytes| send(&a, bytes));
        let Waiting::Known(first) = seen(&b, 0) else { panic!("nothing") };
        let told = [&b"abc"[..], b"d", &long];
        match kind {
            libc::SOCK_STREAM => assert_eq!(first, [told.concat()]),
            _ => assert_eq!(first, told),
        }
        assert_eq!(seen(&b, 0), Waiting::Known(first.clone()));
        let size = option(c.as_fd(), libc::SO_SNDBUF).unwrap();
        deliver(c.as_fd(), &first).unwrap();
        assert_eq!(option(c.as_fd(), libc::SO_SNDBUF).unwrap(), size);
        assert_eq!(seen(&d, 0), Waiting::Known(first));
        shut(a.as_fd(), NO_MORE_GOES).unwrap();
        assert!(matches!(seen(&b, NO_MORE_COMES), Waiting::Known(all) if all.last().unwrap().len() >= long.len()));
        let mut start = [0; 3];
        rustix::net::recv(&b, &mut start[..], rustix::net::RecvFlags::empty()).unwrap();
        assert_eq!(&start, b"abc");
    }
}

#[test]
fn what_cannot_be_told_is_named() {
    for kind in KINDS {
        let [a, b] = pair(kind);
        rustix::net::sockopt::set_socket_passcred(&b, true).unwrap();
        assert_eq!(seen(&b, 0), Waiting::Known(Vec::new()));
        send(&a, b"x");
        assert!(matches!(seen(&b, 0), Waiting::Odd(why) if why.contains("SO_PASSCRED")));
        let [a, b] = pair(kind);
        send(&a, b"x");
        assert!(matches!(waiting(b.as_fd(), kind, 0, 0), Ok(Waiting::Odd(why)) if why.contains("too much")));
        crate::socket::send(a.as_fd(), &[std::io::IoSlice::new(b"y")], &[a.as_fd()], 0).unwrap();
        assert!(matches!(seen(&b, 0), Waiting::Odd(why) if why.contains("descriptors")));
        if kind != libc::SOCK_STREAM {
            let [a, b] = pair(kind);
            [&b"x"[..], b"", b"z"].iter().for_each(|bytes| send(&a, bytes));
            assert_eq!(seen(&b, 0), Waiting::Empty);
        }
    }
}

#[test]
fn options_are_as_they_were() {
    let ([a, _a], [b, _b]) = (pair(libc::SOCK_STREAM), pair(libc::SOCK_STREAM));
    let fresh = options(a.as_fd());
    assert!(!has_time_limit(&fresh));
    set_option(a.as_fd(), libc::SO_SNDBUF, &30_000i32.to_ne_bytes()).unwrap();
    set_option(a.as_fd(), libc::SO_PEEK_OFF, &3i32.to_ne_bytes()).unwrap();
    set_option(a.as_fd(), libc::SO_PASSCRED, &1i32.to_ne_bytes()).unwrap();
    set_option(a.as_fd(), libc::SO_RCVTIMEO, &[5u64.to_ne_bytes(), [0; 8]].concat()).unwrap();
    let told = options(a.as_fd());
    assert!(has_time_limit(&told) && told != fresh);
    set_options(b.as_fd(), &told).unwrap();
    assert_eq!(options(b.as_fd()), told);
    set_options(b.as_fd(), &[vec![1; 40]]).unwrap();
    assert!(!is_filtered(a.as_fd()));
    assert_eq!(maker(a.as_fd()), Some(std::process::id() as i32));
}

#[test]
fn an_error_is_not_taken_away() {
    let [a, b] = pair(libc::SOCK_STREAM);
    send(&b, b"unread");
    send(&a, b"left");
    drop(a);
    for _ in 0..2 {
        assert_eq!(seen(&b, NO_MORE_COMES), Waiting::Known(vec![b"left".to_vec()]));
    }
    let receive = || rustix::net::recv(&b, &mut [0; 9][..], rustix::net::RecvFlags::empty()).map(|(got, _)| got);
    assert_eq!([receive(), receive(), receive()], [Ok(4), Err(rustix::io::Errno::CONNRESET), Ok(0)]);
}
