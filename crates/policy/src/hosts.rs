//! Hosts on request: a user's program asks for some idle hosts, and keeps them until it gives them
//! back or ends (Sprite's `Mig_RequestIdleHosts`).
//!
//! There is no master. Each host decides by what it has promised ([`Grants`]); each home asks the
//! host first that nobody has used for longest ([`Wish`]), for its owner is least likely to come
//! back. A promise holds only while it is renewed, so whoever dies gives its hosts back.
//!
//! Shares become fair where they are not: with each claim a home says how many hosts the holder
//! has. A host goes from a holder to another one that has at least two less. Numbers that hosts
//! know are as old as the last renewal, so a home that was given a host of another holder's waits
//! until that one has renewed its promises, before it takes the next.

use serde::{Deserialize, Serialize};

/// A promise that is not renewed for so long has ended, milliseconds.
pub const LEASE_MS: u64 = 10_000;
/// Promises are renewed so often, milliseconds.
pub const RENEWED_EVERY_MS: u64 = 2_000;
/// A host that refused is not asked again for so long, milliseconds.
const COOLDOWN_MS: u64 = 3_000;

/// A program that holds hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// Id of its home.
    pub home: u64,
    /// Number that the home has given it.
    pub number: u64,
}

/// For how long a holder wants a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Term {
    /// For one process after the other, each of them soon over.
    #[default]
    Short,
    /// For a process that runs for long: shares the host with a holder of short ones.
    Long,
}

/// A request for a host, or to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The program that wants the host.
    pub holder: Holder,
    /// How many hosts it holds, this one not counted.
    pub others: u32,
    /// For how long it wants the host.
    pub term: Term,
}

/// A promise of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grant {
    claim: Claim,
    renewed_ms: u64,
}

/// How a host was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granted {
    /// Nobody else held it, or the holder holds it already.
    Free,
    /// Another holder, which had more than its share, has lost it.
    Reclaimed,
}

/// Promises of one host.
#[derive(Clone, Debug, Default)]
pub struct Grants(Vec<Grant>);

impl Grants {
    /// Judges a claim, or renews a promise.
    ///
    /// # Errors
    /// The holder that keeps the host.
    pub fn claim(&mut self, claim: Claim, now_ms: u64) -> Result<Granted, Holder> {
        self.expire(now_ms);
        let grant = Grant { claim, renewed_ms: now_ms };
        if let Some(own) = self.0.iter_mut().find(|g| g.claim.holder == claim.holder) {
            *own = grant;
            return Ok(Granted::Free);
        }
        let Some(other) = self.0.iter_mut().find(|g| g.claim.term == claim.term) else {
            self.0.push(grant);
            return Ok(Granted::Free);
        };
        // Each would have this host besides its others: the holder of more gives it up.
        if other.claim.others <= claim.others {
            return Err(other.claim.holder);
        }
        *other = grant;
        Ok(Granted::Reclaimed)
    }

    /// Tells whether a promise to this holder is kept. One that was reclaimed is not.
    pub fn keeps(&mut self, holder: Holder, now_ms: u64) -> bool {
        self.expire(now_ms);
        self.0.iter().any(|g| g.claim.holder == holder)
    }

    /// Ends the promise to a holder.
    pub fn release(&mut self, holder: Holder) {
        self.0.retain(|g| g.claim.holder != holder);
    }

    /// Ends all promises: the owner wants the host.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn expire(&mut self, now_ms: u64) {
        self.0.retain(|g| now_ms.saturating_sub(g.renewed_ms) < LEASE_MS);
    }
}

/// A host that may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Id of the node.
    pub id: u64,
    /// For how long nobody has used it, seconds; the most if it takes guests at any time.
    pub unused_s: u32,
}

/// The wish of a program, at its home.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The program that wants hosts.
    pub holder: Holder,
    /// How many hosts it wants.
    pub wanted: u32,
    /// For how long it wants them.
    pub term: Term,
    held: Vec<u64>,
    refused: Vec<(u64, u64)>,
    /// No holder is made to lose a host before this time.
    waits_until_ms: u64,
}

impl Wish {
    /// Begins with no hosts.
    pub fn new(holder: Holder, wanted: u32, term: Term) -> Wish {
        Wish { holder, wanted, term, held: Vec::new(), refused: Vec::new(), waits_until_ms: 0 }
    }

    /// Gives the hosts that the program holds.
    pub fn held(&self) -> &[u64] {
        &self.held
    }

    /// Notes that hosts are given back; as many fewer are wanted.
    pub fn give_back(&mut self, hosts: &[u64]) {
        let held = self.held.len();
        self.held.retain(|host| !hosts.contains(host));
        let fewer = u32::try_from(held - self.held.len()).unwrap_or(u32::MAX);
        self.wanted = self.wanted.saturating_sub(fewer);
    }

    /// Gives the claim to keep a host, or to get one.
    pub fn claim(&self, host: u64) -> Claim {
        let others = self.held.iter().filter(|held| **held != host).count();
        Claim { holder: self.holder, others: u32::try_from(others).unwrap_or(u32::MAX), term: self.term }
    }

    /// Chooses the host to ask next, if one is wanted: the one that nobody has used for longest.
    pub fn next(&mut self, hosts: &[Host], now_ms: u64) -> Option<u64> {
        self.refused.retain(|(_, until)| *until > now_ms);
        if self.held.len() >= self.wanted as usize || now_ms < self.waits_until_ms {
            return None;
        }
        let may_be_asked = |host: &&Host| {
            !self.held.contains(&host.id) && !self.refused.iter().any(|(refused, _)| *refused == host.id)
        };
        hosts.iter().filter(may_be_asked).max_by_key(|host| (host.unused_s, std::cmp::Reverse(host.id))).map(|h| h.id)
    }

    /// Notes a host's answer.
    pub fn note(&mut self, host: u64, answer: Result<Granted, ()>, now_ms: u64) {
        match answer {
            Ok(granted) => {
                if !self.held.contains(&host) {
                    self.held.push(host);
                }
                if granted == Granted::Reclaimed {
                    self.waits_until_ms = now_ms + RENEWED_EVERY_MS + RENEWED_EVERY_MS / 2;
                }
            }
            Err(()) => {
                self.held.retain(|held| *held != host);
                self.refused.push((host, now_ms + COOLDOWN_MS));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Hosts and programs, in steps of half a second.
    struct World {
        now_ms: u64,
        hosts: BTreeMap<u64, (Grants, u32)>,
        wishes: Vec<Wish>,
        reclaimed: usize,
    }

    impl World {
        fn new(hosts: u64) -> World {
            let hosts = (0..hosts).map(|id| (id, (Grants::default(), 100 * id as u32)));
            World { now_ms: 0, hosts: hosts.collect(), wishes: Vec::new(), reclaimed: 0 }
        }

        fn wish(&mut self, number: u64, wanted: u32, term: Term) {
            self.wishes.push(Wish::new(Holder { home: number, number }, wanted, term));
        }

        fn ask(&mut self, at: usize, host: u64, renews: bool) {
            let now_ms = self.now_ms;
            let (grants, _) = self.hosts.get_mut(&host).unwrap();
            let wish = &mut self.wishes[at];
            let answer = match renews && !grants.keeps(wish.holder, now_ms) {
                true => Err(()),
                false => grants.claim(wish.claim(host), now_ms).map_err(drop),
            };
            self.reclaimed += usize::from(answer == Ok(Granted::Reclaimed));
            wish.note(host, answer, now_ms);
        }

        fn run(&mut self, seconds: u64) {
            for _ in 0..2 * seconds {
                self.now_ms += 500;
                for at in 0..self.wishes.len() {
                    // Each renews at another time.
                    if (self.now_ms + 500 * at as u64).is_multiple_of(RENEWED_EVERY_MS) {
                        self.wishes[at].held().to_vec().into_iter().for_each(|host| self.ask(at, host, true));
                    }
                    let hosts: Vec<Host> =
                        self.hosts.iter().map(|(id, (_, unused_s))| Host { id: *id, unused_s: *unused_s }).collect();
                    while let Some(host) = self.wishes[at].next(&hosts, self.now_ms) {
                        self.ask(at, host, false);
                    }
                }
            }
        }

        fn shares(&self) -> Vec<usize> {
            self.wishes.iter().map(|wish| wish.held().len()).collect()
        }
    }

    #[test]
    fn the_host_that_was_unused_for_longest_is_asked_first() {
        let mut world = World::new(5);
        world.wish(1, 2, Term::Short);
        world.run(1);
        assert_eq!(world.wishes[0].held(), [4, 3]);
    }

    #[test]
    fn those_who_ask_later_get_their_share_and_then_all_is_calm() {
        let mut world = World::new(12);
        world.wish(1, 12, Term::Short);
        world.run(5);
        assert_eq!(world.shares(), [12]);
        world.wish(2, 12, Term::Short);
        world.run(60);
        assert_eq!(world.shares(), [6, 6]);
        assert_eq!(world.reclaimed, 6, "no host went to and fro");
        world.wish(3, 12, Term::Short);
        world.run(90);
        assert_eq!(world.shares(), [4, 4, 4]);
        let calm = world.reclaimed;
        world.wish(4, 1, Term::Short);
        world.run(60);
        assert_eq!((world.shares().iter().sum::<usize>(), world.shares()[3]), (12, 1));
        world.run(60);
        assert_eq!(world.reclaimed, calm + 1);
    }

    #[test]
    fn a_holder_that_dies_frees_its_hosts() {
        let mut world = World::new(6);
        world.wish(1, 6, Term::Short);
        world.run(3);
        world.wish(2, 6, Term::Short);
        world.run(40);
        assert_eq!(world.shares(), [3, 3]);
        world.wishes.remove(0);
        world.run(LEASE_MS / 1000 + 10);
        assert_eq!(world.shares(), [6]);
    }

    #[test]
    fn a_long_holder_shares_its_host_with_a_short_one() {
        let mut grants = Grants::default();
        let claim = |number, term, others| Claim { holder: Holder { home: 1, number }, others, term };
        assert_eq!(grants.claim(claim(1, Term::Long, 0), 0), Ok(Granted::Free));
        assert_eq!(grants.claim(claim(2, Term::Short, 0), 0), Ok(Granted::Free));
        assert_eq!(grants.claim(claim(3, Term::Short, 0), 0), Err(Holder { home: 1, number: 2 }));
        assert_eq!(grants.claim(claim(3, Term::Long, 0), 0), Err(Holder { home: 1, number: 1 }));
        grants.release(Holder { home: 1, number: 2 });
        assert_eq!(grants.claim(claim(3, Term::Short, 0), 0), Ok(Granted::Free));
        grants.clear();
        assert!(!grants.keeps(Holder { home: 1, number: 1 }, 0));
    }
}
