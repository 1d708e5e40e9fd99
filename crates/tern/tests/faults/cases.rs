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

/// Who reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The steward; of the room that it leaves, if there are two.
    Home,
    /// The steward of the room that it comes to from another one.
    Beyond,
    /// The room; the one that it leaves, if there are two.
    Room,
    /// The room that it comes to from another one.
    Third,
}

use Place::{Beyond, Home, Room, Third};

/// A point of the protocol, as the code names it.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub name: &'static str,
    ways: &'static [Way],
    place: Place,
    /// Who meets the fault does not have it: home still has it or has it again, or another room.
    elsewhere: bool,
    /// Nothing can fail any more.
    past: bool,
}

/// One test of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub way: Way,
    pub phase: Phase,
    pub kind: Kind,
}

/// What may become of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Goes,
    /// With the node that has it.
    MayDie,
    /// Its steward is killed, which holds it in the middle of an injected call: the kernel lets it
    /// go as it is, and it dies rather than goes on wrongly.
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

const fn phase(name: &'static str, ways: &'static [Way], place: Place, elsewhere: bool, past: bool) -> Phase {
    Phase { name, ways, place, elsewhere, past }
}

const PHASES: &[Phase] = &[
    phase("prepare", OUT, Home, true, false),
    phase("ahead", PRE, Home, true, false),
    phase("round", PRE, Home, true, false),
    phase("pages there", PRE, Room, true, false),
    phase("ahead", AGAIN, Home, true, false),
    phase("round", AGAIN, Home, true, false),
    phase("pages there", AGAIN, Room, true, false),
    phase("rebuild", AGAIN, Home, true, false),
    phase("committed", AGAIN, Home, false, true),
    phase("freeze", OUT, Home, true, false),
    phase("observe", OUT, Home, true, false),
    phase("image", OUT, Home, true, false),
    phase("pages", OUT, Home, true, false),
    phase("rebuild", OUT, Home, true, false),
    phase("implant", OUT, Home, true, false),
    phase("adopt", OUT, Home, true, false),
    phase("commit", OUT, Home, true, false),
    phase("committed", OUT, Home, false, true),
    phase("deputy", OUT, Home, false, true),
    phase("map there", OUT, Room, true, false),
    phase("pages there", OUT, Room, true, false),
    phase("rebuild there", OUT, Room, true, false),
    phase("resume there", OUT, Room, false, true),
    phase("recall", BACK, Home, false, false),
    phase("stop deputy", BACK, Home, false, false),
    phase("fill", BACK, Home, false, false),
    phase("take descriptors", BACK, Home, false, false),
    phase("arrived", BACK, Home, false, true),
    phase("dismissed", BACK, Home, true, true),
    phase("home", BACK, Home, true, true),
    phase("recall there", BACK, Room, false, false),
    phase("collect there", BACK, Room, false, false),
    phase("send there", BACK, Room, false, false),
    phase("leave there", BACK, Room, true, true),
    phase("come ahead", HOME_AHEAD, Home, false, false),
    phase("lay out ahead", HOME_AHEAD, Home, false, false),
    phase("homeward there", HOME_AHEAD, Room, false, false),
    phase("round homeward there", HOME_PRE, Room, false, false),
    phase("advance", HOME_AHEAD, Home, false, false),
    phase("advance there", HOME_AHEAD, Room, false, false),
    phase("come ahead", HOME_AGAIN, Home, false, false),
    phase("lay out ahead", HOME_AGAIN, Home, false, false),
    phase("round homeward there", HOME_AGAIN, Room, false, false),
    phase("fill", HOME_AGAIN, Home, false, false),
    phase("send there", HOME_AGAIN, Room, false, false),
    phase("recall", HOME_PRE, Home, false, false),
    phase("fill", HOME_PRE, Home, false, false),
    phase("send there", HOME_PRE, Room, false, false),
    phase("dismissed", HOME_PRE, Home, true, true),
    phase("outline", ON, Home, false, false),
    phase("outline there", ON, Room, false, false),
    phase("make empty", ON, Beyond, true, false),
    phase("connect there", ON, Room, false, false),
    phase("recall", ON, Home, false, false),
    phase("recall there", ON, Room, false, false),
    phase("collect there", ON, Room, false, false),
    phase("send there", ON, Room, false, false),
    phase("map there", ON, Third, true, false),
    phase("pages there", ON, Third, true, false),
    phase("rebuild there", ON, Third, true, false),
    phase("stands", ON, Beyond, true, false),
    phase("switch", ON, Home, false, false),
    phase("take", ON, Beyond, true, false),
    phase("resumed", ON, Beyond, false, true),
    phase("taken", ON, Beyond, false, true),
    phase("switched", ON, Home, true, true),
    phase("resume there", ON, Third, false, true),
    phase("leave there", ON, Room, true, true),
    phase("ahead there", ON_AHEAD, Room, false, false),
    phase("round there", ON_PRE, Room, false, false),
    phase("pages there", ON_PRE, Third, true, false),
    phase("ahead there", ON_AGAIN, Room, false, false),
    phase("round there", ON_AGAIN, Room, false, false),
    phase("pages there", ON_AGAIN, Third, true, false),
    phase("switch", ON_AGAIN, Home, false, false),
    phase("recall there", ON_PRE, Room, false, false),
    phase("send there", ON_PRE, Room, false, false),
    phase("ahead there", ON_POST, Room, false, false),
    phase("pages there", ON_POST, Third, true, false),
    phase("send there", ON_POST, Room, false, false),
    phase("rebuild there", ON_POST, Third, true, false),
    phase("switch", ON_POST, Home, false, false),
    phase("resume there", ON_POST, Third, false, true),
    phase("lend there", ON_POST, Room, false, true),
    phase("leave there", ON_POST, Room, true, true),
    phase("ask there", FAMILY, Room, false, false),
    phase("share", FAMILY, Home, false, false),
    phase("share there", FAMILY, Room, false, false),
    phase("recall", TOGETHER, Home, false, false),
    phase("fill", TOGETHER, Home, false, false),
    phase("other", TOGETHER, Home, false, false),
    phase("take descriptors", TOGETHER, Home, false, false),
    phase("arrived", TOGETHER, Home, false, true),
    phase("dismissed", TOGETHER, Home, true, true),
    phase("first of several", TOGETHER, Home, true, true),
    phase("home", TOGETHER, Home, true, true),
    phase("collect there", TOGETHER, Room, false, false),
    phase("send there", TOGETHER, Room, false, false),
    phase("join there", TOGETHER, Room, false, false),
    phase("leave there", TOGETHER, Room, true, true),
];

pub fn all() -> Vec<Case> {
    let mut all = Vec::new();
    for phase in PHASES {
        for way in phase.ways {
            for kind in [Kind::Error, Kind::Hang, Kind::Disconnect, Kind::Kill] {
                if !(phase.past && kind == Kind::Error) {
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
        if lost && !self.phase.elsewhere { End::MayDie } else { End::Goes }
    }
}
