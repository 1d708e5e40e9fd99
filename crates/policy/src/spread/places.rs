//! The places of jobs: home and the hosts that are held.

/// A place for jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// How many jobs it has processors for; none: it is not to be used.
    pub slots: u32,
    /// How many jobs are there.
    pub jobs: u32,
    /// The home of the jobs.
    pub is_home: bool,
}

/// Chooses a place for one more job; gives its index. A host with a free processor comes first, for
/// home serves the files of all; then home, if it has one; then the place with the least jobs for
/// each processor.
pub fn choose(spots: &[Spot]) -> Option<usize> {
    let rank = |spot: &Spot| {
        let is_free = spot.jobs < spot.slots;
        let crowding = u64::from(spot.jobs + 1) * 1000 / u64::from(spot.slots.max(1));
        (!is_free, is_free && spot.is_home, crowding, spot.is_home)
    };
    let usable = spots.iter().enumerate().filter(|(_, spot)| spot.slots > 0);
    usable.min_by_key(|(_, spot)| rank(spot)).map(|(index, _)| index)
}

/// Gives the number of jobs for which there are processors: at least one.
pub fn tokens(spots: &[Spot]) -> u32 {
    spots.iter().map(|spot| spot.slots).fold(0, u32::saturating_add).max(1)
}

/// Gives the number of jobs for which a node has processors, beside what others run there. All are
/// thousandths: what it can do, what wants to run there, and what is the asker's of that.
pub fn slots_of(cores_milli: u32, runnable_milli: u32, own_milli: u32) -> u32 {
    let others = runnable_milli.saturating_sub(own_milli);
    let cores = cores_milli.div_ceil(1000).max(1);
    cores.saturating_sub((others + 500) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(slots: u32, jobs: u32) -> Spot {
        Spot { slots, jobs, is_home: false }
    }

    fn home(slots: u32, jobs: u32) -> Spot {
        Spot { is_home: true, ..spot(slots, jobs) }
    }

    #[test]
    fn hosts_first_then_home_then_the_least_crowded() {
        assert_eq!(choose(&[home(2, 0), spot(1, 0), spot(4, 0)]), Some(2));
        assert_eq!(choose(&[home(2, 0), spot(1, 1), spot(4, 4)]), Some(0));
        assert_eq!(choose(&[home(2, 2), spot(1, 1), spot(4, 4)]), Some(2));
        assert_eq!(choose(&[home(1, 1), spot(1, 1)]), Some(1));
        assert_eq!(choose(&[home(1, 5), spot(0, 0)]), Some(0));
        assert_eq!(choose(&[spot(0, 0)]), None);
    }

    #[test]
    fn tokens_are_the_processors_that_others_leave() {
        assert_eq!(tokens(&[home(2, 0), spot(1, 0), spot(4, 0)]), 7);
        assert_eq!(tokens(&[]), 1);
        assert_eq!(slots_of(4000, 1200, 0), 3);
        assert_eq!(slots_of(4000, 4100, 4000), 4);
        assert_eq!(slots_of(400, 300, 0), 1);
        assert_eq!(slots_of(1000, 2000, 0), 0);
    }
}
