//! What daemons say to each other over TLS: one length-prefixed message each way, as often as the
//! client likes.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::coscheduling::{HostedOrder, NodeJob};
use crate::drain::{DrainOrder, DrainReport};
use crate::facts::{Facts, Load};
use crate::guests::{LeaveReason, TakenBack};
use crate::hosts::{Claim, Granted, Holder};
use crate::power::PowerOrder;
use crate::sampling::{Sampled, Sampling};
use crate::steward::{RoomId, RoomKind};

/// Largest message, bytes.
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Most members in one list.
pub const MEMBERS_MAX: usize = 4096;

/// A member, as daemons tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The name that it has.
    pub name: String,
    /// The id of the node.
    pub id: u64,
    /// Where its daemon listens (TCP and UDP).
    pub address: SocketAddr,
    /// Rises with every start of its daemon.
    pub generation: u64,
}

/// The resources that a process needs at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Its number at home.
    pub process: u64,
    /// The memory that it uses, MiB.
    pub memory_mib: u32,
    /// The number of open descriptors.
    pub descriptors: u64,
    /// The number of threads.
    pub tasks: u64,
}

/// Member to member, over mutual TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerRequest {
    /// This daemon has started; who is there? Answered by [`PeerAnswer::Members`].
    Enter {
        /// The one who asks.
        me: Member,
        /// The load of the node.
        load: Load,
    },
    /// One exchange of clock readings, NTP style. Answered by [`PeerAnswer::Clock`].
    Clock,
    /// What are you? Answered by [`PeerAnswer::Facts`].
    Facts,
    /// Start a warden for this room of mine.
    HostRoom {
        /// The room that is meant.
        room: RoomId,
        /// Where the warden finds my daemon.
        address: SocketAddr,
        /// The user whose processes it will have.
        owner: u32,
        /// The kind of the room.
        kind: RoomKind,
    },
    /// I am about to leave: close your rooms here that have no guests. Refused, in words, if one
    /// has guests.
    Vacate,
    /// I have gone for good. No answer is awaited.
    Leave {
        /// Node id of the one who leaves.
        id: u64,
    },
    /// May a process that already runs come? Answered by [`PeerAnswer::Done`]: a promise that holds
    /// for some seconds.
    Admit {
        /// Which, from where, and why.
        ask: policy::Ask,
    },
    /// A user wants a process of mine to come: keep so much for it for some seconds, or refuse in
    /// words. Asked again for the same process, it is kept for longer. It ends with
    /// [`PeerRequest::Settle`].
    Reserve {
        /// Amount, in the unit of the resource.
        need: Need,
        /// The room that it comes to, if that is known.
        room: Option<RoomId>,
        /// Keep it whatever there is.
        force: bool,
    },
    /// What came of a promise to [`PeerRequest::Admit`] or [`PeerRequest::Reserve`].
    Settle {
        /// The process that was to come.
        process: u64,
        /// It has; else it will not.
        has_come: bool,
    },
    /// My owner wants these processes of yours gone from here: take them home. Answered at once by
    /// [`PeerAnswer::TakingBack`]; asked again, it goes on.
    TakeBack {
        /// PIDs at home, at most [`TAKEN_BACK_MAX`](crate::guests::TAKEN_BACK_MAX).
        pids: Vec<i32>,
        /// Try again what stayed.
        again: bool,
        /// Why they must leave.
        reason: LeaveReason,
    },
    /// Where would these processes of yours go if they had to leave here? Answered by
    /// [`PeerAnswer::TakingBack`]; nothing is moved.
    WhereTo {
        /// PIDs at home, at most [`TAKEN_BACK_MAX`](crate::guests::TAKEN_BACK_MAX).
        pids: Vec<i32>,
    },
    /// Root of my node wants yours to be drained. Refused unless your owner allows that.
    Drain(DrainOrder),
    /// Root of my node wants your machine to halt, or to start again. Answered by
    /// [`PeerAnswer::Done`]. Refused unless your owner allows that.
    Power(PowerOrder),
    /// A program of mine wants to hold your node, or holds it. Answered by [`PeerAnswer::Granted`],
    /// or refused in words.
    ClaimHost {
        /// The program, and what it holds.
        claim: Claim,
        /// The holder holds the node already.
        renews: bool,
    },
    /// A program of mine does not hold your node any more.
    ReleaseHost {
        /// The program that held it.
        holder: Holder,
    },
    /// My node is about to be suspended: wait for it, and let your processes here stand still.
    /// Answered by [`PeerAnswer::Done`] when they do.
    Suspend {
        /// For at most so long, milliseconds.
        for_ms: u32,
    },
    /// My node is there again.
    Wake,
    /// Root of my node wants to see your queues (`tern netmon --all`). Answered by
    /// [`PeerAnswer::Sampled`]. Refused unless your owner allows that.
    Sample(Sampling),
    /// Coschedule tasks of mine. Answered by [`PeerAnswer::Coscheduled`]. Refused unless your owner
    /// allows that.
    Coschedule(HostedOrder),
}

/// The answers to requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PeerAnswer {
    /// To [`PeerRequest::Enter`]: who is alive, the one who answers included.
    Members {
        /// The members of the cluster.
        members: Vec<Member>,
        /// Their loads, as far as known.
        loads: Vec<PulseEntry>,
    },
    /// To [`PeerRequest::Clock`]: CLOCK_REALTIME of the one who answers, microseconds since 1970.
    Clock {
        /// When the request had come.
        received_us: i64,
    },
    /// The answer to [`PeerRequest::Facts`].
    Facts {
        /// What does not change.
        facts: Facts,
        /// What changes all the time.
        load: Load,
    },
    /// What was asked is done.
    Done,
    /// Refused or failed, in words.
    Failed {
        /// The reason, in words.
        reason: String,
    },
    /// The answer to [`PeerRequest::TakeBack`].
    TakingBack(Vec<TakenBack>),
    /// The answer to [`PeerRequest::Drain`].
    Drain(DrainReport),
    /// The answer to [`PeerRequest::ClaimHost`].
    Granted(Granted),
    /// The answer to [`PeerRequest::Sample`].
    Sampled(Sampled),
    /// The answer to [`PeerRequest::Coschedule`]; none if the node does not know the job and was
    /// not to begin with it.
    Coscheduled(Option<NodeJob>),
}

/// A newcomer's first message, over TLS without a client certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The id of the invitation.
    pub id: [u8; 8],
    /// The secret of the invitation.
    pub secret: [u8; 16],
    /// The name that the newcomer wants.
    pub name: String,
    /// Its public key (P-256, uncompressed point).
    pub public_key: Vec<u8>,
}

/// Answer to a newcomer.
#[derive(Clone, Serialize, Deserialize)]
pub enum JoinAnswer {
    /// Admitted: postcard of `identity::Membership`, and whom to talk to.
    Admitted {
        /// For the state directory.
        membership: Vec<u8>,
        /// Members to start with.
        members: Vec<Member>,
    },
    /// The newcomer is not admitted.
    Refused {
        /// The reason, in words.
        reason: String,
    },
}

/// What a datagram between daemons holds, after decryption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Datagram {
    /// Of the membership protocol.
    Swim(Vec<u8>),
    /// Once a second to a random member.
    Pulse {
        /// Who sends it: a receiver that does not know it asks for the list.
        me: Member,
        /// [`digest`] of the members that the sender sees alive, itself included: who differs asks
        /// for the list.
        digest: u64,
        /// The newest loads that the sender knows.
        entries: Vec<PulseEntry>,
    },
    /// Are you there? (`tern doctor`)
    Echo {
        /// The number that comes back.
        nonce: u64,
    },
    /// The answer to an echo.
    EchoReply {
        /// From the question.
        nonce: u64,
    },
}

/// Tells two sets of members apart, whatever their order: exclusive or of a mixed id and generation
/// each (splitmix64's finaliser).
pub fn digest<'a>(members: impl Iterator<Item = &'a Member>) -> u64 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    members.fold(0, |sum, m| sum ^ mix(m.id ^ mix(m.generation)))
}

/// A node's load as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PulseEntry {
    /// The id of the node.
    pub id: u64,
    /// How old the reading is, milliseconds.
    pub age_ms: u32,
    /// The load that was read.
    pub load: Load,
}
