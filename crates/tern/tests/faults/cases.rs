//! Every phase of every kind of move, with every kind of fault.

/// The move that a fault falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From home to n2.
    Out,
    /// The same, by pre-copy.
    Pre,
    /// The same, when n2 has what it left there.
    Again,
    /// From n2 home.
    Home,
    /// The same, by pre-copy.
    HomePre,
    /// The same, when home has what it left there.
    HomeAgain,
    /// Straight from n2 to n3.
    On,
    /// The same, by pre-copy.
    OnPre,
    /// The same, when n3 has what it left there.
    OnAgain,
    /// The same, by post-copy.
    OnPost,
    /// From n2 to n3 by way of home.
    Around,
    /// From n2 home, without a child that has files in common with it.
    Family,
    /// From n2 home, with a child that shares memory with it.
    Together,
    /// From home to n2, with a child that shares memory with it.
    GroupOut,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Out => "out",
            Way::Pre => "pre",
            Way::Again => "again",
            Way::Home => "home",
            Way::HomePre => "homepre",
            Way::HomeAgain => "homeagain",
            Way::On => "on",
            Way::OnPre => "onpre",
            Way::OnAgain => "onagain",
            Way::OnPost => "onpost",
            Way::Around => "around",
            Way::Family => "family",
            Way::Together => "together",
            Way::GroupOut => "groupout",
        }
    }
}

/// What happens at the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Error,
    Hang,
    Disconnect,
    Kill,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Error => "error",
            Kind::Hang => "hang",
            Kind::Disconnect => "disconnect",
            Kind::Kill => "kill",
        }
    }
}

/// The daemon that reaches a phase, and so meets the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultPlace {
    /// The steward; with two rooms, that of the room that the process leaves.
    Home,
    /// With two rooms, the steward of the room that the process moves to.
    Beyond,
    /// The room; with two rooms, the one that the process leaves.
    Room,
    /// With two rooms, the one that the process moves to.
    Third,
}

/// Whether the node that meets the fault has the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// The process is lost with the node.
    Here,
    /// Home has the process still or again, or another room has it.
    Elsewhere,
}

/// Whether the move can still fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// An error ends the move, and the process goes on where it was.
    Undecided,
    /// The move has succeeded or will; there is no error to inject.
    Settled,
}

use FaultPlace::{Beyond, Home, Room, Third};
use Outcome::{Settled, Undecided};
use Whereabouts::{Elsewhere, Here};

/// A point of the protocol, as the code names it.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub name: &'static str,
    ways: &'static [Way],
    place: FaultPlace,
    whereabouts: Whereabouts,
    outcome: Outcome,
}

/// One test of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub way: Way,
    pub phase: Phase,
    pub kind: Kind,
}

/// The ends that the program may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Goes,
    /// The program may die with the node that has it.
    MayDie,
    /// The program's steward is killed in the middle of an injected call. The kernel resumes the
    /// program as it is, and the program dies instead of going on wrongly.
    MayTrap,
}

const OUT: &[Way] = &[Way::Out, Way::Around];
const PRE: &[Way] = &[Way::Pre];
const AGAIN: &[Way] = &[Way::Again];
const HOME_AGAIN: &[Way] = &[Way::HomeAgain];
const ON_AGAIN: &[Way] = &[Way::OnAgain];
const BACK: &[Way] = &[Way::Home, Way::Around];
const HOME_AHEAD: &[Way] = &[Way::Home, Way::HomePre];
const HOME_PRE: &[Way] = &[Way::HomePre];
const ON: &[Way] = &[Way::On];
const ON_AHEAD: &[Way] = &[Way::On, Way::OnPre];
const ON_PRE: &[Way] = &[Way::OnPre];
const ON_POST: &[Way] = &[Way::OnPost];
const FAMILY: &[Way] = &[Way::Family];
const TOGETHER: &[Way] = &[Way::Together];
const GROUP_OUT: &[Way] = &[Way::GroupOut];

const fn phase(
    name: &'static str,
    ways: &'static [Way],
    place: FaultPlace,
    whereabouts: Whereabouts,
    outcome: Outcome,
) -> Phase {
    Phase { name, ways, place, whereabouts, outcome }
}

const PHASES: &[Phase] = &[
    phase("prepare", OUT, Home, Elsewhere, Undecided),
    phase("ahead", PRE, Home, Elsewhere, Undecided),
    phase("round", PRE, Home, Elsewhere, Undecided),
    phase("pages there", PRE, Room, Elsewhere, Undecided),
    phase("ahead", AGAIN, Home, Elsewhere, Undecided),
    phase("round", AGAIN, Home, Elsewhere, Undecided),
    phase("pages there", AGAIN, Room, Elsewhere, Undecided),
    phase("rebuild", AGAIN, Home, Elsewhere, Undecided),
    phase("committed", AGAIN, Home, Here, Settled),
    phase("freeze", OUT, Home, Elsewhere, Undecided),
    phase("observe", OUT, Home, Elsewhere, Undecided),
    phase("image", OUT, Home, Elsewhere, Undecided),
    phase("pages", OUT, Home, Elsewhere, Undecided),
    phase("rebuild", OUT, Home, Elsewhere, Undecided),
    phase("implant", OUT, Home, Elsewhere, Undecided),
    phase("adopt", OUT, Home, Elsewhere, Undecided),
    phase("commit", OUT, Home, Elsewhere, Undecided),
    phase("committed", OUT, Home, Here, Settled),
    phase("deputy", OUT, Home, Here, Settled),
    phase("map there", OUT, Room, Elsewhere, Undecided),
    phase("pages there", OUT, Room, Elsewhere, Undecided),
    phase("rebuild there", OUT, Room, Elsewhere, Undecided),
    phase("resume there", OUT, Room, Here, Settled),
    phase("recall", BACK, Home, Here, Undecided),
    phase("stop deputy", BACK, Home, Here, Undecided),
    phase("fill", BACK, Home, Here, Undecided),
    phase("take descriptors", BACK, Home, Here, Undecided),
    phase("arrived", BACK, Home, Here, Settled),
    phase("dismissed", BACK, Home, Elsewhere, Settled),
    phase("home", BACK, Home, Elsewhere, Settled),
    phase("recall there", BACK, Room, Here, Undecided),
    phase("collect there", BACK, Room, Here, Undecided),
    phase("send there", BACK, Room, Here, Undecided),
    phase("leave there", BACK, Room, Elsewhere, Settled),
    phase("come ahead", HOME_AHEAD, Home, Here, Undecided),
    phase("lay out ahead", HOME_AHEAD, Home, Here, Undecided),
    phase("homeward there", HOME_AHEAD, Room, Here, Undecided),
    phase("round homeward there", HOME_PRE, Room, Here, Undecided),
    phase("advance", HOME_AHEAD, Home, Here, Undecided),
    phase("advance there", HOME_AHEAD, Room, Here, Undecided),
    phase("come ahead", HOME_AGAIN, Home, Here, Undecided),
    phase("lay out ahead", HOME_AGAIN, Home, Here, Undecided),
    phase("round homeward there", HOME_AGAIN, Room, Here, Undecided),
    phase("fill", HOME_AGAIN, Home, Here, Undecided),
    phase("send there", HOME_AGAIN, Room, Here, Undecided),
    phase("recall", HOME_PRE, Home, Here, Undecided),
    phase("fill", HOME_PRE, Home, Here, Undecided),
    phase("send there", HOME_PRE, Room, Here, Undecided),
    phase("dismissed", HOME_PRE, Home, Elsewhere, Settled),
    phase("outline", ON, Home, Here, Undecided),
    phase("outline there", ON, Room, Here, Undecided),
    phase("make empty", ON, Beyond, Elsewhere, Undecided),
    phase("connect there", ON, Room, Here, Undecided),
    phase("recall", ON, Home, Here, Undecided),
    phase("recall there", ON, Room, Here, Undecided),
    phase("collect there", ON, Room, Here, Undecided),
    phase("send there", ON, Room, Here, Undecided),
    phase("map there", ON, Third, Elsewhere, Undecided),
    phase("pages there", ON, Third, Elsewhere, Undecided),
    phase("rebuild there", ON, Third, Elsewhere, Undecided),
    phase("stands", ON, Beyond, Elsewhere, Undecided),
    phase("switch", ON, Home, Here, Undecided),
    phase("take", ON, Beyond, Elsewhere, Undecided),
    phase("resumed", ON, Beyond, Here, Settled),
    phase("taken", ON, Beyond, Here, Settled),
    phase("switched", ON, Home, Elsewhere, Settled),
    phase("resume there", ON, Third, Here, Settled),
    phase("leave there", ON, Room, Elsewhere, Settled),
    phase("ahead there", ON_AHEAD, Room, Here, Undecided),
    phase("round there", ON_PRE, Room, Here, Undecided),
    phase("pages there", ON_PRE, Third, Elsewhere, Undecided),
    phase("ahead there", ON_AGAIN, Room, Here, Undecided),
    phase("round there", ON_AGAIN, Room, Here, Undecided),
    phase("pages there", ON_AGAIN, Third, Elsewhere, Undecided),
    phase("switch", ON_AGAIN, Home, Here, Undecided),
    phase("recall there", ON_PRE, Room, Here, Undecided),
    phase("send there", ON_PRE, Room, Here, Undecided),
    phase("ahead there", ON_POST, Room, Here, Undecided),
    phase("pages there", ON_POST, Third, Elsewhere, Undecided),
    phase("send there", ON_POST, Room, Here, Undecided),
    phase("rebuild there", ON_POST, Third, Elsewhere, Undecided),
    phase("switch", ON_POST, Home, Here, Undecided),
    phase("resume there", ON_POST, Third, Here, Settled),
    phase("lend there", ON_POST, Room, Here, Settled),
    phase("leave there", ON_POST, Room, Elsewhere, Settled),
    phase("ask there", FAMILY, Room, Here, Undecided),
    phase("share", FAMILY, Home, Here, Undecided),
    phase("share there", FAMILY, Room, Here, Undecided),
    phase("recall", TOGETHER, Home, Here, Undecided),
    phase("fill", TOGETHER, Home, Here, Undecided),
    phase("other", TOGETHER, Home, Here, Undecided),
    phase("take descriptors", TOGETHER, Home, Here, Undecided),
    phase("arrived", TOGETHER, Home, Here, Settled),
    phase("dismissed", TOGETHER, Home, Elsewhere, Settled),
    phase("first of several", TOGETHER, Home, Elsewhere, Settled),
    phase("home", TOGETHER, Home, Elsewhere, Settled),
    phase("collect there", TOGETHER, Room, Here, Undecided),
    phase("send there", TOGETHER, Room, Here, Undecided),
    phase("join there", TOGETHER, Room, Here, Undecided),
    phase("leave there", TOGETHER, Room, Elsewhere, Settled),
    phase("member", GROUP_OUT, Home, Elsewhere, Undecided),
    phase("freeze", GROUP_OUT, Home, Elsewhere, Undecided),
    phase("image", GROUP_OUT, Home, Elsewhere, Undecided),
    phase("member sent", GROUP_OUT, Home, Elsewhere, Undecided),
    phase("implant", GROUP_OUT, Home, Elsewhere, Undecided),
    phase("commit", GROUP_OUT, Home, Elsewhere, Undecided),
    phase("first of several", GROUP_OUT, Home, Here, Settled),
    phase("deputy", GROUP_OUT, Home, Here, Settled),
    phase("map there", GROUP_OUT, Room, Elsewhere, Undecided),
    phase("rebuild there", GROUP_OUT, Room, Elsewhere, Undecided),
    phase("resume there", GROUP_OUT, Room, Here, Settled),
];

pub fn all() -> Vec<Case> {
    let mut all = Vec::new();
    for phase in PHASES {
        for way in phase.ways {
            for kind in [Kind::Error, Kind::Hang, Kind::Disconnect, Kind::Kill] {
                if !(phase.outcome == Settled && kind == Kind::Error) {
                    all.push(Case { way: *way, phase: *phase, kind });
                }
            }
        }
    }
    all
}

impl Case {
    /// The node that has the fault.
    pub fn node(&self) -> &'static str {
        match self.phase.place {
            Home | Beyond => "n1",
            Third => "n3",
            // On its way out it comes to n3.
            Room if self.way == Way::Around && self.phase.ways == OUT => "n3",
            Room => "n2",
        }
    }

    /// The loss of a node ends what is there.
    pub fn end(&self) -> End {
        let steward = match self.phase.place {
            Home => true,
            // Who has been given the deputy.
            Beyond => matches!(self.phase.name, "take" | "resumed" | "taken"),
            Room | Third => false,
        };
        if self.kind == Kind::Kill && steward {
            return End::MayTrap;
        }
        let lost = matches!(self.kind, Kind::Disconnect | Kind::Kill);
        if lost && self.phase.whereabouts == Here { End::MayDie } else { End::Goes }
    }
}
