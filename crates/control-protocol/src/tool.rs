//! What the user's tool says to the daemon, over `/run/tern/ternd.sock` (SOCK_SEQPACKET).
//!
//! The tool sends one packet: a [`Request`]. [`Request::Run`] comes with one descriptor: a sealed
//! memfd with a postcard [`Program`](crate::steward::Program). The daemon answers with one
//! [`Answer`], cut into packets of at most [`PACKET_BYTES`]: tag [`CONTROL_TAG`], a byte that is 1
//! if more follows, then bytes.
//!
//! After [`Answer::Placing`] the same socket is the channel of a deputy: the packets that follow
//! are the steward's.

use serde::{Deserialize, Serialize};

use crate::calls::CallsReport;
use crate::coscheduling::{JobOnNode, JobOrder};
use crate::drain::{DrainOrder, DrainReport};
use crate::facts::{Finding, Load};
use crate::guests::{HostedGuest, Insist, Remaining, Whom};
use crate::history::Event;
use crate::hosts::{HeldHosts, HostsOrder};
use crate::jobs::{JobRequest, JobRow};
use crate::moves::{HopReport, MoveOptions, Progress, Sibling};
use crate::power::PowerOrder;
use crate::queues::RoomQueues;
use crate::rights::NodeRights;
use crate::sampling::{Sampled, Sampling};
use crate::steward::{Guest, RoomKind};
use crate::usage::UsageReport;

/// First byte of every packet by which the daemon answers.
pub const CONTROL_TAG: u8 = 0xC0;
/// Largest packet, bytes: well below the kernel's default socket buffer.
pub const PACKET_BYTES: usize = 32 << 10;
/// Largest request, bytes.
pub const REQUEST_BYTES: usize = 4 << 10;
/// Largest answer, bytes.
pub const ANSWER_BYTES: usize = 16 << 20;

/// Tool to daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Who is in the cluster?
    Nodes,
    /// Which processes started here are away? Users see their own, root all.
    Ps,
    /// Why is this process where it is?
    Why {
        /// PID at home.
        pid: i32,
        /// Could it be moved to this node? To some nodes, if absent.
        to: Option<String>,
    },
    /// Which calls has this process made where it is? Users ask for their own, root for all.
    Calls {
        /// PID at home.
        pid: i32,
        /// Also of its children, theirs, and its relatives there, those that have ended included.
        family: bool,
    },
    /// Place the program in the memfd; the process that asks becomes its deputy.
    Run {
        /// Node, `home` for this one; the least loaded one if absent.
        on: Option<String>,
        /// The policy may move it on, though the node is named.
        movable: bool,
        /// The node's CPU may lack what this one's has.
        any_cpu: bool,
        /// Root accepts that the node gets root's rights over this home.
        as_root: bool,
        /// Also where memory, descriptors or processes are short.
        force: bool,
        /// What becomes of processes that must go home.
        homecoming: Homecoming,
        /// The kind of the room for the program. For [`RoomKind::NodeLocal`] the node is named.
        kind: RoomKind,
    },
    /// Test the pair of this node and another.
    Doctor {
        /// The name of the other node.
        node: String,
    },
    /// Make invitations (root).
    Invite {
        /// For how long they are valid, seconds.
        valid_s: u64,
        /// How many are wanted.
        count: u32,
        /// The newcomers get the authority's key too, and may invite.
        authority: bool,
        /// The newcomers are daemons of this machine: they reach its loopback address.
        loopback: bool,
    },
    /// Leave the cluster (root): this home's processes come back, guests go home, the others are
    /// told, the identity is forgotten, and the daemon ends. Answered by [`Answer::Remaining`] as
    /// long as there are processes to wait for: asked again, it goes on.
    Leave {
        /// What becomes of processes that stay.
        insist: Insist,
    },
    /// How is the daemon?
    Status,
    /// The last lines of the daemon's log (root).
    Log {
        /// How many are wanted.
        lines: u32,
    },
    /// Move a running process: to this node, home if absent. Users move their own, root all.
    /// Answered by [`Answer::Moved`], after any number of [`Answer::Progress`]. The tool calls the
    /// move off, if the process does not run there yet, by shutting down its sending direction
    /// (shutdown(2)).
    Move {
        /// PID at home.
        pid: i32,
        /// The name of the node.
        to: Option<String>,
        /// How its memory shall go.
        wish: MoveOptions,
        /// A process away whose memory is the same: pages come from its node.
        like: Option<Sibling>,
    },
    /// What are the policy's settings?
    Policy,
    /// Change policy settings, all or none (root; users for themselves: `scope`).
    SetPolicy {
        /// Names and values.
        changes: Vec<(String, String)>,
    },
    /// The last decisions (root).
    Decisions {
        /// How many are wanted.
        lines: u32,
    },
    /// Say what the policy may do with a process (its user, root).
    Pin {
        /// PID at home.
        pid: i32,
        /// From now on; absent: as if nothing had been said.
        pin: Option<Pin>,
    },
    /// Which processes of other homes run here? Command lines are for root.
    Guests,
    /// Send guests home, whoever brought them (root). Answered by [`Answer::Guests`], with those
    /// that are still here: asked again, it goes on.
    Evict {
        /// The guests that are meant.
        whom: Whom,
        /// What becomes of guests that stay.
        insist: Insist,
    },
    /// Note that somebody is at this machine, or nobody.
    Presence(PresenceWord),
    /// Drain a node (root). Answered by [`Answer::Drain`].
    Drain {
        /// The name of the node; this one, if absent.
        node: Option<String>,
        /// The question or order.
        order: DrainOrder,
    },
    /// Halt another node, or start it again (root). Answered by [`Answer::Done`].
    Power {
        /// The name of the node.
        node: String,
        /// The order to its machine.
        order: PowerOrder,
    },
    /// Say who of this home may use nodes (root). Answered by [`Answer::Done`].
    SetNodes {
        /// The names of the nodes.
        nodes: Vec<String>,
        /// `state=`, `owner=`, `group=`, `mode=`, each with its value.
        changes: Vec<String>,
    },
    /// Get hosts for a program, or give them back. Answered by [`Answer::Hosts`].
    Hosts(HostsOrder),
    /// This node is about to be suspended, or unplugged (root): rooms wait for it. Answered by
    /// [`Answer::Suspended`] when their processes stand still.
    Suspend {
        /// For at most so long, milliseconds; as the policy says, if absent.
        for_ms: Option<u32>,
    },
    /// The suspension is over (root). Answered by [`Answer::Suspended`].
    Wake,
    /// Give the last entries of the log of evictions (root), as JSON.
    Evictions {
        /// How many are wanted.
        lines: u32,
    },
    /// Tell the use by users of this home. Users see their own rows, root all. Answered by
    /// [`Answer::Usage`].
    Usage {
        /// The last days that are wanted, today included.
        days: u32,
    },
    /// Where do messages of processes wait that are away? Users see their own rooms, root all.
    /// Answered by [`Answer::Queues`].
    Queues,
    /// Have another node sample its queues (root). Answered by [`Answer::Sampled`].
    Sample {
        /// The name of the node.
        node: String,
        /// The order to its sampler.
        sampling: Sampling,
    },
    /// About jobs. Answered by [`Answer::Jobs`].
    Job(JobRequest),
    /// Coschedule the tasks of a job that are away (root). Answered by [`Answer::Coscheduled`].
    Coschedule(JobOrder),
}

/// The word of a person about being at a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PresenceWord {
    /// Somebody is there, with or without input.
    Back {
        /// For at least so long, seconds.
        for_s: u32,
    },
    /// Nobody is there, until the next input.
    Away,
}

/// What `tern run` wants when its program, or what descends from it, must go home for what home
/// alone can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Homecoming {
    /// The first that goes says so on its standard error.
    Say,
    /// It goes without a word.
    #[default]
    Quiet,
    /// It ends instead, and says why.
    Fail,
}

/// What a user says about a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// It stays where it is.
    pub stay: bool,
    /// It goes home whenever home can run it.
    pub prefer_home: bool,
    /// What it does.
    pub hint: Hint,
}

/// What a process does, as its user knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hint {
    /// Nothing is said.
    #[default]
    None,
    /// The process computes.
    Cpu,
    /// It is busy with files, terminals and sockets.
    Io,
}

/// Daemon to tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Request::Nodes`], sorted by name.
    Nodes(Vec<NodeRow>),
    /// The answer to [`Request::Ps`].
    Ps {
        /// Processes that are away.
        rows: Vec<PsRow>,
        /// Rooms that could not be asked, and why.
        failures: Vec<String>,
        /// Processes of other homes that run here; root's eyes only.
        guests: Vec<HostedGuest>,
    },
    /// The answer to [`Request::Why`].
    Why(WhyReport),
    /// The answer to [`Request::Calls`]; none if the process is not away.
    Calls(Option<CallsReport>),
    /// To [`Request::Run`], from the steward, which has this socket now: become a deputy.
    Placing {
        /// The node that hosts the body.
        node: String,
    },
    /// The answer to [`Request::Doctor`].
    Findings(Vec<Finding>),
    /// The answer to [`Request::Invite`].
    Invited {
        /// The tokens as text.
        tokens: Vec<String>,
        /// When they expire, seconds since 1970.
        expires_s: u64,
    },
    /// The answer to [`Request::Status`].
    Status(Status),
    /// The answer to [`Request::Log`].
    Log {
        /// The lines, oldest first.
        lines: Vec<String>,
    },
    /// What was asked is done.
    Done,
    /// What was asked is not done.
    Failed {
        /// What was tried and why it failed.
        reason: String,
        /// What to do, if something can be done.
        hint: Option<String>,
        /// The reason as a number of errno(3), for programs.
        errno: i32,
    },
    /// The answer to [`Request::Policy`].
    Policy(Vec<SettingRow>),
    /// The answer to [`Request::Move`].
    Moved {
        /// One way after the other.
        legs: Vec<HopReport>,
    },
    /// To [`Request::Move`], once a second, from the steward: more will come.
    Progress(Progress),
    /// To [`Request::Guests`] and [`Request::Evict`], sorted by home and PID.
    Guests(Vec<HostedGuest>),
    /// To [`Request::Run`]: the program is to run here, at home, as if it had been started without
    /// tern.
    Here,
    /// To [`Request::Leave`]: these processes keep the node in its cluster.
    Remaining(Vec<Remaining>),
    /// The answer to [`Request::Drain`].
    Drain(DrainReport),
    /// The answer to [`Request::Hosts`].
    Hosts(Vec<HeldHosts>),
    /// The answer to [`Request::Usage`].
    Usage(UsageReport),
    /// The answer to [`Request::Suspend`] and [`Request::Wake`].
    Suspended(SuspendReport),
    /// The answer to [`Request::Queues`].
    Queues(Vec<RoomQueues>),
    /// The answer to [`Request::Sample`].
    Sampled(Sampled),
    /// The answer to [`Request::Job`]: the jobs, in the order of their beginning.
    Jobs(Vec<JobRow>),
    /// The answer to [`Request::Coschedule`]: an entry for each node that hosts tasks of the job.
    Coscheduled(Vec<JobOnNode>),
}

/// The result of the order to suspend this node, or to wake it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendReport {
    /// Rooms wait at most so long, milliseconds; 0 after the suspension.
    pub for_ms: u32,
    /// Nodes whose rooms of this home confirmed, one entry each room.
    pub rooms: Vec<String>,
    /// Other members that confirmed.
    pub members: Vec<String>,
    /// Failures, in words.
    pub failures: Vec<String>,
}

/// A suspension of a node, as another one shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// For how long the node has been suspended, milliseconds.
    pub since_ms: u64,
    /// For how long it is waited for still, milliseconds.
    pub left_ms: u64,
}

/// What is known of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyReport {
    /// PID at home.
    pub pid: i32,
    /// The node that it runs on.
    pub node: String,
    /// That is not its home.
    pub away: bool,
    /// For how long that node has not answered, milliseconds, if something waits for an answer.
    pub silent_ms: Option<u64>,
    /// What holds of it now, in words.
    pub lines: Vec<String>,
    /// What has happened to it, oldest first.
    pub history: Vec<Event>,
    /// The daemon's clock, milliseconds since 1970.
    pub now_ms: u64,
}

/// A policy setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingRow {
    /// The name that it has.
    pub name: String,
    /// Its value now.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
    /// What it means.
    pub text: String,
}

/// A node, as the daemon that is asked knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    /// The name that it has.
    pub name: String,
    /// Address of its daemon.
    pub address: String,
    /// Alive as far as is known.
    pub alive: bool,
    /// It is the node that is asked.
    pub here: bool,
    /// The node has said that it is suspended.
    pub suspended: Option<Suspension>,
    /// Newest load that has come, and its age in milliseconds.
    pub load: Option<(Load, u64)>,
    /// The rights of this home's users on it.
    pub rights: NodeRights,
    /// The name of its group at home, if root has given it one.
    pub group: Option<String>,
}

/// A process that is away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PsRow {
    /// Where its body is.
    pub node: String,
    /// The room is connected.
    pub connected: bool,
    /// For how long the node has not answered, milliseconds, if something waits for an answer.
    pub silent_ms: Option<u64>,
    /// What the process is and uses.
    pub guest: Guest,
}

/// The daemon's own state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The name of this node.
    pub node: String,
    /// Cluster (random name).
    pub cluster: String,
    /// Version of tern.
    pub version: String,
    /// Address that it listens on.
    pub address: String,
    /// PID of the daemon.
    pub pid: u32,
    /// Members alive, this one included.
    pub alive: u32,
    /// Members known, this one included.
    pub known: u32,
    /// Rooms of this home on other nodes.
    pub rooms_away: u32,
    /// Rooms of others hosted here.
    pub rooms_hosted: u32,
    /// Processes of this home that its policy has moved since the daemon began.
    pub moved: u64,
}

/// Cuts an encoded answer into packets.
pub fn packets(answer: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let parts = answer.len().div_ceil(PACKET_BYTES - 2).max(1);
    (0..parts).map(move |i| {
        let from = i * (PACKET_BYTES - 2);
        let part = &answer[from..answer.len().min(from + PACKET_BYTES - 2)];
        let mut packet = vec![CONTROL_TAG, u8::from(i + 1 < parts)];
        packet.extend_from_slice(part);
        packet
    })
}

/// Gives the packet by which a steward tells the process that it has taken over:
/// [`Answer::Placing`]. It comes from the steward, not from the daemon, so that a daemon that dies
/// in between leaves nobody waiting.
///
/// # Errors
/// None for a node's name.
pub fn placing(node: &str) -> Result<Vec<u8>, crate::codec::CodecError> {
    packet(&Answer::Placing { node: node.to_owned() })
}

/// Gives the packet by which a steward tells the tool how far a move is.
///
/// # Errors
/// None for a node's name.
pub fn progress(progress: Progress) -> Result<Vec<u8>, crate::codec::CodecError> {
    packet(&Answer::Progress(progress))
}

fn packet(answer: &Answer) -> Result<Vec<u8>, crate::codec::CodecError> {
    let answer = crate::codec::encode(answer, PACKET_BYTES - 2)?;
    Ok([&[CONTROL_TAG, 0], answer.as_slice()].concat())
}

/// Puts an answer together again.
#[derive(Debug, Default)]
pub struct Assembly {
    bytes: Vec<u8>,
}

impl Assembly {
    /// Takes a packet; the whole answer once it is there.
    ///
    /// # Errors
    /// A malformed packet or answer, or more than [`ANSWER_BYTES`].
    pub fn take(&mut self, packet: &[u8]) -> Result<Option<Answer>, crate::codec::CodecError> {
        use crate::codec::CodecError;
        let [CONTROL_TAG, more, part @ ..] = packet else {
            return Err(CodecError::Malformed { why: "no answer of a daemon".into() });
        };
        if self.bytes.len() + part.len() > ANSWER_BYTES {
            return Err(CodecError::TooLarge { bytes: self.bytes.len() + part.len(), limit: ANSWER_BYTES });
        }
        self.bytes.extend_from_slice(part);
        if *more != 0 {
            return Ok(None);
        }
        // Another answer may follow.
        crate::codec::decode(&std::mem::take(&mut self.bytes)).map(Some)
    }
}
