use super::*;
use crate::deputy::job::Purpose;
use crate::deputy::table::DeputyTable;
use crate::deputy::thread::EINTR;
use crate::proxy::standins;
use os::socket;
use room_protocol::message::CallId;
use std::os::fd::AsFd;

fn deputy() -> (Deputy, OwnedFd) {
    let pid = std::process::id() as i32;
    let (ours, theirs) = socket::pair().unwrap();
    let program = room_protocol::message::Program { path: vec![], argv: vec![], envp: vec![] };
    let proof = DeputyProof::of_coming(os::process_identity::ProcessIdentity::of(pid).unwrap());
    let mut deputy = Deputy::new(PidFd::open(pid).unwrap(), proof, program, ours);
    deputy.threads.values_mut().for_each(Thread::ready);
    (deputy, theirs)
}

#[test]
fn a_process_that_is_no_deputy_yet_is_left_alone() {
    let (ours, theirs) = socket::pair().unwrap();
    let mut thread = Thread::arriving(ours);
    thread.give(Job::new(channel::order(abi::OP_PROGRAM, [0; 2], &[]), Purpose::Nothing));
    thread.preempt(Job::new(channel::order(abi::OP_EXIT, [0; 2], &[]), Purpose::Nothing));
    assert!(!thread.is_to_be_interrupted());
    let said = socket::receive(theirs.as_fd(), &mut [0; 64], libc::MSG_DONTWAIT);
    assert_eq!(said.map_err(|e| e.errno()).unwrap_err(), libc::EAGAIN);
    thread.ready();
    assert_eq!(next(&theirs), abi::OP_EXIT);
}

fn next(channel: &OwnedFd) -> u32 {
    let mut packet = [0; 4096];
    let (n, _) = socket::receive(channel.as_fd(), &mut packet, libc::MSG_DONTWAIT).unwrap();
    assert!(n >= 4);
    u32::from_le_bytes([packet[0], packet[1], packet[2], packet[3]])
}

/// Failed once: the order to end went to a thread that had ended, because the first one was busy.
#[test]
fn the_end_goes_to_a_thread_that_lives() {
    let (mut deputy, first) = deputy();
    let pid = std::process::id() as i32;
    let (ours, second) = socket::pair().unwrap();
    deputy.add_thread(1, ours, Some(5));
    deputy.end_thread(1);
    assert_eq!(next(&second), abi::OP_THREAD_EXIT);
    deputy.give_any(Job::new(channel::order(abi::OP_PROGRAM, [0; 2], &[]), Purpose::Nothing));
    deputy.end(channel::order(abi::OP_EXIT, [0; 2], &[]), None);
    assert_eq!(next(&first), abi::OP_PROGRAM);
    assert!(deputy.threads.get_mut(&pid).unwrap().replied(0).is_some());
    assert_eq!(next(&first), abi::OP_EXIT);
}

/// A server that waits for the next connection closes at home what its child was the last to close.
#[test]
fn what_is_urgent_goes_before_a_call_that_waits() {
    let (mut deputy, first) = deputy();
    let pid = std::process::id() as i32;
    let thread = deputy.threads.get_mut(&pid).unwrap();
    let purpose = Purpose::Call { id: CallId(7), nr: 0, standin: None, securebits: None };
    thread.give(Job::new(channel::order(abi::OP_CALL, [0; 2], &[]), purpose).made_again(true));
    assert!(!thread.is_to_be_interrupted());
    deputy.give_soon(Job::new(channel::order(abi::OP_PROGRAM, [0; 2], &[]), Purpose::Nothing));
    assert_eq!(next(&first), abi::OP_CALL);
    let thread = deputy.threads.get_mut(&pid).unwrap();
    assert!(thread.is_to_be_interrupted() && thread.replied(EINTR).is_none());
    assert_eq!(next(&first), abi::OP_PROGRAM);
    assert!(!thread.is_to_be_interrupted() && thread.replied(0).is_some());
    assert_eq!(next(&first), abi::OP_CALL);
    assert!(matches!(thread.replied(5), Some((job, 5)) if job.is_call(CallId(7))));
}

#[test]
fn interrupted_calls_are_made_again_unless_cancelled() {
    let (mut deputy, first) = deputy();
    let pid = std::process::id() as i32;
    let id = CallId(7);
    let thread = deputy.threads.get_mut(&pid).unwrap();
    thread.give(Job::new(
        channel::order(abi::OP_CALL, [0; 2], &[]),
        Purpose::Call { id, nr: 0, standin: None, securebits: None },
    ));
    next(&first);
    assert!(thread.replied(abi::NOT_EXECUTED).is_none());
    assert_eq!(next(&first), abi::OP_CALL);
    assert!(thread.cancel(id).is_none() && thread.is_to_be_interrupted());
    assert_eq!(thread.replied(abi::NOT_EXECUTED).map(|(_, result)| result), Some(EINTR));
}

/// Failed once: a child that was made just after a close kept what was closed, for ever.
#[test]
fn a_child_closes_what_its_parent_closed_meanwhile() {
    let (mut parent, of_parent) = deputy();
    let (child, of_child) = deputy();
    let pid = std::process::id() as i32;
    let standin = StandinId(3);
    parent.phase = Phase::Away;
    parent.standins.insert(standin, vec![7]);
    let purpose = Purpose::Fork { id: CallId(1), channel: socket::pair().unwrap().0 };
    assert!(parent.make(pid, Job::new(channel::order(abi::OP_FORK, [0; 2], &[]), purpose)));
    let child = Deputy { phase: Phase::Away, standins: parent.standins.clone(), ..child };
    let mut table = DeputyTable { deputies: HashMap::from([(pid, parent)]), ..DeputyTable::default() };
    standins::close_everywhere(&mut table, standin);
    assert_eq!(next(&of_parent), abi::OP_FORK);
    table.deputies.get_mut(&pid).unwrap().threads.get_mut(&pid).unwrap().replied(1);
    table.deputies.insert(1, child);
    standins::forked(&mut table, pid);
    assert_eq!((next(&of_parent), next(&of_child)), (abi::OP_CALL, abi::OP_CALL));
    assert!(table.deputies.values().all(|deputy| deputy.standins.is_empty()));
}
