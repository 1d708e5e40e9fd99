//! Every phase of every kind of move, with every kind of fault.

/// Which move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From home to n2.
    Out,
    /// The same, by pre-copy.
    Pre,
    /// From n2 home.
    Home,
    /// From n2 to n3.
    On,
    /// From n2 home, without a child that has files in common with it.
    Family,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Out => "out",
            Way::Pre => "pre",
            Way::Home => "home",
            Way::On => "on",
            Way::Family => "family",
        }
    }
}

/// What happens.
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

/// A point of the protocol, as the code names it.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub name: &'static str,
    ways: &'static [Way],
    /// In the room, not at home.
    there: bool,
    /// It goes out: home still has it; or it comes home, which has it again.
    at_home: bool,
    /// Nothing can fail any more.
    past: bool,
}

/// One test.
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
    /// Its steward is killed, which holds it in the middle of an injected call: the kernel lets it go as it is, and it dies rather than goes on wrongly.
    MayTrap,
}

const OUT: &[Way] = &[Way::Out, Way::On];
const PRE: &[Way] = &[Way::Pre];
const BACK: &[Way] = &[Way::Home, Way::On];
const FAMILY: &[Way] = &[Way::Family];

const fn phase(name: &'static str, ways: &'static [Way], there: bool, at_home: bool, past: bool) -> Phase {
    Phase { name, ways, there, at_home, past }
}

const PHASES: &[Phase] = &[
    phase("prepare", OUT, false, true, false),
    phase("ahead", PRE, false, true, false),
    phase("round", PRE, false, true, false),
    phase("freeze", OUT, false, true, false),
    phase("observe", OUT, false, true, false),
    phase("image", OUT, false, true, false),
    phase("pages", OUT, false, true, false),
    phase("rebuild", OUT, false, true, false),
    phase("implant", OUT, false, true, false),
    phase("adopt", OUT, false, true, false),
    phase("commit", OUT, false, true, false),
    phase("committed", OUT, false, false, true),
    phase("deputy", OUT, false, false, true),
    phase("map there", OUT, true, true, false),
    phase("pages there", OUT, true, true, false),
    phase("rebuild there", OUT, true, true, false),
    phase("resume there", OUT, true, false, true),
    phase("recall", BACK, false, false, false),
    phase("stop deputy", BACK, false, false, false),
    phase("fill", BACK, false, false, false),
    phase("take descriptors", BACK, false, false, false),
    phase("arrived", BACK, false, false, true),
    phase("dismissed", BACK, false, true, true),
    phase("home", BACK, false, true, true),
    phase("recall there", BACK, true, false, false),
    phase("collect there", BACK, true, false, false),
    phase("send there", BACK, true, false, false),
    phase("leave there", BACK, true, true, true),
    phase("ask there", FAMILY, true, false, false),
    phase("share", FAMILY, false, false, false),
    phase("share there", FAMILY, true, false, false),
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
        match (self.phase.there, self.way) {
            (false, _) => "n1",
            // On its way out it comes to n3.
            (true, Way::On) if self.phase.ways == OUT => "n3",
            (true, _) => "n2",
        }
    }

    /// The loss of a node ends what is there.
    pub fn end(&self) -> End {
        if self.kind == Kind::Kill && !self.phase.there {
            return End::MayTrap;
        }
        let lost = matches!(self.kind, Kind::Disconnect | Kind::Kill);
        if lost && !self.phase.at_home { End::MayDie } else { End::Goes }
    }
}
