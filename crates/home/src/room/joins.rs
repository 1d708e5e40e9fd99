//! Streams whose two ends are in one room: their bytes need not pass home.
//!
//! Home finds two streams of which each is the other's peer. It has the room hold both, and waits
//! until nothing of either is at home: neither in the link, nor in the true sockets. Then the room
//! joins them. If that moment does not come soon (a process does not read), home lets them go on,
//! and tries again later.

use relay::{Frame, HomeEnd, HomePump, StreamId};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long two streams are held at most.
const HOLD_MAX: Duration = Duration::from_millis(20);
/// How long two streams go on before they are held again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often two held streams are looked at.
const LOOK: Duration = Duration::from_millis(1);

/// The name of an end of a connection, and that of its peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionNames {
    /// The name of this end.
    pub own: String,
    /// The name of the other end.
    pub peer: String,
}

impl ConnectionNames {
    /// Asks the kernel; `None` if it does not say who the peer is.
    pub fn of(socket: BorrowedFd<'_>) -> Option<ConnectionNames> {
        let address = |name: rustix::net::SocketAddrAny| {
            let address = SocketAddr::try_from(name).ok()?;
            Some(SocketAddr::new(address.ip().to_canonical(), address.port()).to_string())
        };
        let own = rustix::net::getsockname(socket).ok()?;
        match address(own) {
            Some(own) => Some(ConnectionNames { own, peer: address(rustix::net::getpeername(socket).ok()??)? }),
            None => ConnectionNames::of_unix(socket),
        }
    }

    /// Sockets of unix(7) mostly have no names: their inodes are theirs.
    fn of_unix(socket: BorrowedFd<'_>) -> Option<ConnectionNames> {
        let own_pid = std::process::id().cast_signed();
        let inode = os::process::fd_info(own_pid, socket.as_raw_fd()).ok()?.inode;
        let peer = os::pairs::Diagnosis::of(own_pid).and_then(|diagnosis| diagnosis.ask(inode)).ok()?.peer?;
        Some(ConnectionNames { own: format!("unix {inode}"), peer: format!("unix {peer}") })
    }

    fn reversed(&self) -> ConnectionNames {
        ConnectionNames { own: self.peer.clone(), peer: self.own.clone() }
    }
}

/// Streams that may be joined.
#[derive(Debug, Default)]
pub struct Joins {
    by_name: HashMap<ConnectionNames, StreamId>,
    names: HashMap<StreamId, ConnectionNames>,
    tries: Vec<JoinTry>,
}

#[derive(Clone, Copy, Debug)]
struct JoinTry {
    ids: [StreamId; 2],
    state: JoinState,
}

#[derive(Clone, Copy, Debug)]
enum JoinState {
    /// Both go on until then.
    Waits(Instant),
    /// Both are held since then.
    Holds(Instant),
}

impl Joins {
    /// Notes a stream that was opened. Gives its names if its other end is not in this room.
    pub fn opened(&mut self, id: StreamId, socket: BorrowedFd<'_>) -> Option<ConnectionNames> {
        let names = ConnectionNames::of(socket)?;
        let other = self.by_name.get(&names.reversed()).copied();
        self.by_name.insert(names.clone(), id);
        self.names.insert(id, names.clone());
        match other {
            Some(other) => {
                self.tries.push(JoinTry { ids: [id, other], state: JoinState::Waits(Instant::now()) });
                None
            }
            None => Some(names),
        }
    }

    /// Gives the names of a stream's ends, if the kernel told them.
    pub fn names(&self, id: StreamId) -> Option<&ConnectionNames> {
        self.names.get(&id)
    }

    /// Gives the stream with these names.
    pub fn named(&self, names: &ConnectionNames) -> Option<StreamId> {
        self.by_name.get(names).copied()
    }

    /// Forgets a stream that was closed. A stream that was held for it may send again.
    pub fn closed(&mut self, id: StreamId, pump: &mut HomePump) {
        if let Some(names) = self.names.remove(&id)
            && self.by_name.get(&names) == Some(&id)
        {
            self.by_name.remove(&names);
        }
        for given_up in self.tries.extract_if(.., |attempt| attempt.ids.contains(&id)) {
            release(given_up, pump);
        }
    }

    /// Goes on with the streams that are to be joined.
    pub fn advance(&mut self, pump: &mut HomePump) {
        let now = Instant::now();
        self.tries.retain_mut(|attempt| match attempt.state {
            JoinState::Waits(until) if now < until => true,
            JoinState::Waits(_) => {
                attempt.ids.iter().for_each(|id| hold(*id, pump));
                attempt.state = JoinState::Holds(now);
                true
            }
            JoinState::Holds(_) if !attempt.ids.iter().all(|id| pump.get(*id).is_some_and(HomeEnd::is_held)) => true,
            JoinState::Holds(_) if attempt.ids.map(|id| is_quiet(id, pump)) == [true, true] => {
                let [one, other] = attempt.ids;
                pump.say(one, Frame::Join(other));
                false
            }
            JoinState::Holds(since) if now < since + HOLD_MAX => true,
            JoinState::Holds(_) => {
                release(*attempt, pump);
                attempt.state = JoinState::Waits(now + PAUSE);
                !attempt.ids.iter().any(|id| pump.get(*id).is_none_or(HomeEnd::is_over))
            }
        });
    }

    /// Gives the time after which [`Joins::advance`] is to be called.
    pub fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let of = |attempt: &JoinTry| match attempt.state {
            JoinState::Waits(until) => until.saturating_duration_since(now),
            JoinState::Holds(_) => LOOK,
        };
        self.tries.iter().map(of).min()
    }
}

fn is_quiet(id: StreamId, pump: &mut HomePump) -> bool {
    let mut is_quiet = false;
    let failed = pump.act(id, |end, turn| {
        is_quiet = end.is_quiet(turn);
        Ok(())
    });
    is_quiet && failed.is_none()
}

fn hold(id: StreamId, pump: &mut HomePump) {
    pump.act(id, |end, turn| {
        end.hold(turn);
        Ok(())
    });
}

/// Lets two streams go on that were held.
fn release(attempt: JoinTry, pump: &mut HomePump) {
    if matches!(attempt.state, JoinState::Waits(_)) {
        return;
    }
    for id in attempt.ids {
        let failed = pump.act(id, |end, turn| {
            end.release(turn);
            Ok(())
        });
        if let Some((id, why)) = failed {
            tracing::debug!("stream {id:?}: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn ends_of_one_connection_are_each_others_peers() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let other = listener.accept().unwrap().0;
        let names = [one.as_fd(), other.as_fd()].map(|socket| ConnectionNames::of(socket).unwrap());
        assert_eq!(names[0], names[1].reversed());
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let names = [one.as_fd(), other.as_fd()].map(|socket| ConnectionNames::of(socket).unwrap());
        assert_eq!(names[0], names[1].reversed());
    }
}
