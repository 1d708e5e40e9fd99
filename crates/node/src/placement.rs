//! May a program of this home run on that node, and which node is best? Pure: facts in, verdict or
//! words out.

use control_protocol::facts::{Facts, Load};

/// Wall clocks may differ by this much, microseconds: beyond, a new room shows its guests the
/// home's clock (`room::state::wall`).
pub const SKEW_MAX_US: i64 = 10_000;

/// Why a node is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody of that name.
    #[error("no node {name}; known: {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// Who there is.
        known: String,
    },
    /// Not heard of.
    #[error("node {name} is down (for {since_s} s)")]
    Down {
        /// The name of the node.
        name: String,
        /// For how long, seconds.
        since_s: u64,
    },
    /// The node has said that it will not answer for a while.
    #[error("node {name} is suspended (for {since_s} s)")]
    Suspended {
        /// The name of the node.
        name: String,
        /// For how long, seconds.
        since_s: u64,
    },
    /// Others hear of it, this node does not.
    #[error("{name} did not answer this node")]
    Silent {
        /// The name of the node.
        name: String,
    },
    /// The program was started there.
    #[error("{name} is this node: nothing to place")]
    Here {
        /// The name of this node.
        name: String,
    },
    /// Wall clocks differ.
    #[error("the wall clock of {name} is off by {:.1} ms against this node's, which it was not when its room was made", *skew_us as f64 / 1e3)]
    Skew {
        /// The name of the node.
        name: String,
        /// Its clock minus ours, microseconds.
        skew_us: i64,
    },
    /// A program that found a feature at home might use it there.
    #[error("the CPU of {name} lacks {features}, which this node has")]
    Cpu {
        /// The name of the node.
        name: String,
        /// The names of the missing features.
        features: String,
    },
    /// Programs save registers in another size.
    #[error("the CPU of {name} saves its registers in {theirs} bytes, this node's in {ours}")]
    Xsave {
        /// The name of the node.
        name: String,
        /// The number of that node.
        theirs: u32,
        /// The number of this node.
        ours: u32,
    },
    /// The node has another architecture.
    #[error("{name} is a {theirs} machine, this one {ours}")]
    Machine {
        /// The name of the node.
        name: String,
        /// The architecture of that node.
        theirs: String,
        /// The architecture of this node.
        ours: String,
    },
    /// PIDs of home do not fit.
    #[error("processes on {name} cannot have PIDs above {theirs}, this node's go to {ours}")]
    PidMax {
        /// The name of the node.
        name: String,
        /// The bound of that node.
        theirs: u32,
        /// The bound of this node.
        ours: u32,
    },
    /// Its kernel lacks something.
    #[error("{name} cannot host guests: {lack}")]
    CannotHost {
        /// The name of the node.
        name: String,
        /// What is missing.
        lack: String,
    },
    /// It wants none.
    #[error("{name} accepts no guests")]
    NoGuests {
        /// The name of the node.
        name: String,
    },
    /// It has enough.
    #[error("{name} is full: it hosts {rooms} rooms, at most {rooms_max} are allowed")]
    Full {
        /// The name of the node.
        name: String,
        /// The rooms that it hosts now.
        rooms: u32,
        /// The most rooms that it hosts.
        rooms_max: u32,
    },
    /// Nobody will have it.
    #[error("no node can take it: {reasons}")]
    Nobody {
        /// One reason a node.
        reasons: String,
    },
}

impl Refusal {
    /// The number of errno(3) by which programs tell refusals apart.
    pub fn errno(&self) -> i32 {
        match self {
            Refusal::Unknown { .. } => libc::ENXIO,
            Refusal::Down { .. } | Refusal::Suspended { .. } | Refusal::Silent { .. } => libc::EHOSTDOWN,
            Refusal::NoGuests { .. } => libc::EACCES,
            Refusal::Full { .. } => libc::EAGAIN,
            Refusal::Here { .. } => libc::EINVAL,
            Refusal::Skew { .. }
            | Refusal::Cpu { .. }
            | Refusal::Xsave { .. }
            | Refusal::Machine { .. }
            | Refusal::PidMax { .. }
            | Refusal::CannotHost { .. } => libc::EOPNOTSUPP,
            Refusal::Nobody { .. } => libc::EHOSTUNREACH,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Refusal::Unknown { .. } => Some("`tern nodes` lists the nodes".into()),
            Refusal::Down { name, .. } => {
                Some(format!("start ternd on {name}, or leave --on away to take another node"))
            }
            Refusal::Silent { name } => Some(format!("`tern doctor {name}` tests the pair")),
            Refusal::Skew { .. } => Some("synchronise the clocks (NTP)".into()),
            Refusal::PidMax { name, ours, .. } => Some(format!("on {name}: sysctl kernel.pid_max={ours}")),
            Refusal::CannotHost { name, .. } => {
                Some(format!("`tern doctor` on {name} says what is missing and what to do"))
            }
            Refusal::Cpu { name, .. } | Refusal::Xsave { name, .. } => {
                Some(format!("`tern run --on {name} --any-cpu` if the program looks for what it needs when it starts"))
            }
            Refusal::Here { .. } => Some("run it without tern, or name another node".into()),
            _ => None,
        }
    }
}

/// What was found out about a node, against home.
#[derive(Clone, Debug)]
pub struct Survey {
    /// What it is.
    pub facts: Facts,
    /// What it has to do.
    pub load: Load,
    /// The room there shows the home's wall clock.
    pub shows_clock: bool,
    /// Its wall clock minus ours, microseconds.
    pub skew_us: i64,
    /// How wrong that may be: half the round trip, microseconds.
    pub skew_error_us: i64,
}

impl Survey {
    /// Its wall clock is wrong by more than may be left alone. What the measurement itself cannot
    /// tell does not count.
    pub fn is_skewed(&self) -> bool {
        self.skew_us.abs() - self.skew_error_us > SKEW_MAX_US
    }
}

/// Is the node `name` a target for programs of `home`? `reused`: a room is there already, so that
/// it need not take another.
///
/// # Errors
/// The first [`Refusal`] that holds.
pub fn check(home: &Facts, name: &str, there: &Survey, reused: bool) -> Result<(), Refusal> {
    let name = name.to_owned();
    let facts = &there.facts;
    if facts.machine != home.machine {
        return Err(Refusal::Machine { name, theirs: facts.machine.clone(), ours: home.machine.clone() });
    }
    if facts.rooms_max == 0 {
        return Err(Refusal::NoGuests { name });
    }
    if !reused && there.load.rooms >= facts.rooms_max {
        return Err(Refusal::Full { name, rooms: there.load.rooms, rooms_max: facts.rooms_max });
    }
    // A new room is made for the clock as it is.
    if reused && !there.shows_clock && there.is_skewed() {
        return Err(Refusal::Skew { name, skew_us: there.skew_us });
    }
    if facts.pid_max < home.pid_max {
        return Err(Refusal::PidMax { name, theirs: facts.pid_max, ours: home.pid_max });
    }
    if let Some(lack) = &facts.cannot_host {
        return Err(Refusal::CannotHost { name, lack: lack.clone() });
    }
    // Last: who waives it has none of the others.
    let lacking = lacking(home, facts);
    if !lacking.is_empty() {
        return Err(Refusal::Cpu { name, features: lacking.join(", ") });
    }
    // Programs keep room for what the processor that they began on said; another would save more,
    // over what lies behind.
    if facts.xsave_bytes != home.xsave_bytes && facts.xsave_bytes != 0 && home.xsave_bytes != 0 {
        return Err(Refusal::Xsave { name, theirs: facts.xsave_bytes, ours: home.xsave_bytes });
    }
    Ok(())
}

/// The verdict, for a program that may run on any CPU, or not.
///
/// # Errors
/// What else speaks against the node.
pub fn waive(verdict: Result<(), Refusal>, any_cpu: bool) -> Result<(), Refusal> {
    match verdict {
        Err(Refusal::Cpu { .. } | Refusal::Xsave { .. }) if any_cpu => Ok(()),
        other => other,
    }
}

/// CPU features that `home` has and `there` lacks.
pub fn lacking<'a>(home: &'a Facts, there: &Facts) -> Vec<&'a str> {
    home.cpu_features.iter().filter(|f| !there.cpu_features.contains(f)).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            machine: "x86_64".into(),
            cpu_features: vec!["avx2".into(), "sse4_2".into()],
            pid_max: 4_194_304,
            rooms_max: 2,
            ..Facts::default()
        }
    }

    fn survey() -> Survey {
        Survey { facts: facts(), load: Load::default(), shows_clock: false, skew_us: 0, skew_error_us: 200 }
    }

    #[test]
    fn words_for_every_refusal() {
        let refusal = |change: &dyn Fn(&mut Survey)| {
            let mut there = survey();
            change(&mut there);
            check(&facts(), "n2", &there, false).unwrap_err().to_string()
        };
        assert_eq!(check(&facts(), "n2", &survey(), false), Ok(()));
        let mut lesser = survey();
        lesser.facts.cpu_features.clear();
        assert!(waive(check(&facts(), "n2", &lesser, false), false).is_err());
        assert_eq!(waive(check(&facts(), "n2", &lesser, false), true), Ok(()));
        lesser.facts.pid_max = 1000;
        assert!(waive(check(&facts(), "n2", &lesser, false), true).is_err());
        assert_eq!(
            refusal(&|s| s.facts.cpu_features = vec!["sse4_2".into()]),
            "the CPU of n2 lacks avx2, which this node has"
        );
        let mut wider = survey();
        wider.facts.xsave_bytes = 2696;
        let home = Facts { xsave_bytes: 832, ..facts() };
        let refused = check(&home, "n2", &wider, false);
        assert_eq!(
            refused.clone().unwrap_err().to_string(),
            "the CPU of n2 saves its registers in 2696 bytes, this node's in 832"
        );
        assert_eq!(waive(refused, true), Ok(()));
        assert!(refusal(&|s| s.facts.rooms_max = 0).contains("accepts no guests"));
        assert!(refusal(&|s| s.load.rooms = 2).contains("full: it hosts 2 rooms"));
        assert!(refusal(&|s| s.facts.pid_max = 32768).contains("32768"));
        assert!(refusal(&|s| s.facts.cannot_host = Some("no FUSE".into())).contains("no FUSE"));
        assert!(refusal(&|s| s.facts.machine = "aarch64".into()).contains("aarch64"));
    }

    #[test]
    fn a_live_room_is_used_even_when_full_and_noise_is_no_skew() {
        let mut there = survey();
        there.load.rooms = 2;
        there.skew_us = 10_150;
        assert_eq!(check(&facts(), "n2", &there, true), Ok(()));
        there.skew_us = 10_201;
        let off = check(&facts(), "n2", &there, true).unwrap_err().to_string();
        assert!(off.starts_with("the wall clock of n2 is off by 10.2 ms"), "{off}");
        there.shows_clock = true;
        assert_eq!(check(&facts(), "n2", &there, true), Ok(()));
        there.shows_clock = false;
        there.load.rooms = 0;
        assert_eq!(check(&facts(), "n2", &there, false), Ok(()));
    }
}
