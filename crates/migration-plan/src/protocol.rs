//! Ownership of a process between home and a room: which side may let it run, and which answers the
//! room still owes. Home decides, in one step that cannot fail: the commit point. A failure before
//! the commit leaves the process where it was; after the commit nothing brings it back. For a move
//! between two rooms home keeps two of these, one for each room, and hands the process from one to
//! the other ([`Protocol::passed`], [`Protocol::taken`]).
//!
//! Messages keep their order in both directions, so an outstanding answer marks the end of all
//! messages of the previous move. No new move begins before it, because it would take messages of
//! the previous move for its own.

/// The side that may let the process run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The home of the process.
    Home,
    /// The room of this protocol.
    Room,
    /// Another room of the same home.
    Beyond,
}

/// A command from home to a room that concerns who runs the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HomeCommand {
    /// Stop the body, and send its state.
    Recall,
    /// Let the body run.
    Resume,
    /// Remove all of the body.
    Release,
}

/// A message from a room that ends a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoomReply {
    /// All state of a recalled body was sent, or cannot be sent.
    Whole,
    /// The body is removed.
    Left,
}

/// The error for a command that would break ownership now: a defect in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder(pub HomeCommand);

/// One move of a process, as home sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    from: Side,
    owner: Side,
    owed: Option<RoomReply>,
}

impl Protocol {
    /// Starts a move of a process that `from` owns.
    pub fn new(from: Side) -> Protocol {
        Protocol { from, owner: from, owed: None }
    }

    /// Gives the owner of the process.
    pub fn owner(&self) -> Side {
        self.owner
    }

    /// Commits a move to home. (A move to the room commits with [`HomeCommand::Resume`].)
    pub fn arrived(&mut self) {
        self.owner = Side::Home;
    }

    /// Commits a move to another room, in the protocol of the room that the process leaves.
    pub fn passed(&mut self) {
        self.owner = Side::Beyond;
    }

    /// Commits a move from another room, in the protocol of the room that the process enters. Home
    /// alone decides when the process runs there.
    pub fn taken(&mut self) {
        self.owner = Side::Home;
    }

    /// Checks a command before home sends it.
    ///
    /// # Errors
    /// [`OutOfOrder`] if the command would let two bodies run, or none.
    pub fn tell(&mut self, told: HomeCommand) -> Result<(), OutOfOrder> {
        match (told, self.from, self.owner) {
            (HomeCommand::Recall, Side::Room, Side::Room) => self.owed = Some(RoomReply::Whole),
            // The process stays in the room or begins there. If a recall was sent, its answer is
            // still owed.
            (HomeCommand::Resume, Side::Room, Side::Room) => {}
            (HomeCommand::Resume, Side::Home | Side::Beyond, Side::Home) => self.owner = Side::Room,
            // The process stays at home or in the other room, or has arrived there.
            (HomeCommand::Release, Side::Home | Side::Room, Side::Home) | (HomeCommand::Release, _, Side::Beyond) => {
                self.owed = Some(RoomReply::Left);
            }
            _ => return Err(OutOfOrder(told)),
        }
        Ok(())
    }

    /// Takes a message from the room.
    pub fn hear(&mut self, said: RoomReply) {
        if said == RoomReply::Left || self.owed == Some(said) {
            self.owed = None;
        }
    }

    /// Tells whether the room owes no answer, so that another move can begin.
    pub fn is_settled(&self) -> bool {
        self.owed.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashSet, VecDeque};

    /// The next step of home if nothing fails. Every step may fail but the ones after the commit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Step {
        Prepare,
        Commit,
        CallOff,
        Settle,
        Done,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Body {
        None,
        /// The body is complete and does not run.
        Still,
        Runs,
    }

    /// Carries out a command in the room, and gives the room's message.
    fn obey(told: HomeCommand, body: &mut Body) -> Option<RoomReply> {
        let (now, says) = match told {
            HomeCommand::Recall => (Body::Still, Some(RoomReply::Whole)),
            HomeCommand::Resume => (Body::Runs, None),
            HomeCommand::Release => (Body::None, Some(RoomReply::Left)),
        };
        *body = now;
        says
    }

    /// Home, a room, and the messages between them.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct World {
        protocol: Protocol,
        step: Step,
        home_runs: bool,
        body: Body,
        to_room: VecDeque<HomeCommand>,
        to_home: VecDeque<RoomReply>,
        /// The link is cut.
        cut: bool,
        /// The process is dead because its node is.
        dead: bool,
    }

    impl World {
        fn begin(from: Side) -> World {
            let at_home = from == Side::Home;
            World {
                protocol: Protocol::new(from),
                step: Step::Prepare,
                home_runs: at_home,
                body: if at_home { Body::Still } else { Body::Runs },
                to_room: VecDeque::new(),
                to_home: VecDeque::new(),
                cut: false,
                dead: false,
            }
        }

        fn tell(&mut self, told: HomeCommand) {
            self.protocol.tell(told).unwrap();
            self.to_room.push_back(told);
        }

        fn home_fails(&mut self) {
            if self.protocol.from == Side::Home {
                self.home_runs = true;
            }
            self.step = Step::CallOff;
        }

        fn home_goes_on(&mut self) {
            let out = self.protocol.from == Side::Home;
            match self.step {
                Step::Prepare if out => (self.home_runs, self.step) = (false, Step::Commit),
                Step::Prepare => {
                    self.tell(HomeCommand::Recall);
                    self.step = Step::Commit;
                }
                Step::Commit if out => {
                    self.tell(HomeCommand::Resume);
                    self.step = Step::Settle;
                }
                Step::Commit if self.protocol.is_settled() => {
                    self.protocol.arrived();
                    self.home_runs = true;
                    self.tell(HomeCommand::Release);
                    self.step = Step::Settle;
                }
                Step::CallOff => {
                    self.tell(if out { HomeCommand::Release } else { HomeCommand::Resume });
                    self.step = Step::Settle;
                }
                Step::Settle if self.protocol.is_settled() => self.step = Step::Done,
                _ => {}
            }
        }

        fn room_obeys(&mut self) {
            if let Some(told) = self.to_room.pop_front() {
                self.to_home.extend(obey(told, &mut self.body));
            }
        }

        /// Both ends notice the loss: a room without home ends, and home keeps the processes that
        /// it owns.
        fn loses_link(&mut self) {
            (self.cut, self.body) = (true, Body::None);
            self.to_room.clear();
            self.to_home.clear();
            match self.protocol.owner() {
                Side::Home => self.home_runs = true,
                Side::Room | Side::Beyond => self.dead = true,
            }
            self.step = Step::Done;
        }

        fn next(&self) -> Vec<World> {
            let with = |change: fn(&mut World)| {
                let mut next = self.clone();
                change(&mut next);
                next
            };
            if self.cut {
                return Vec::new();
            }
            let mut all = vec![
                with(World::home_goes_on),
                with(World::room_obeys),
                with(World::loses_link),
                with(|world| {
                    if let Some(said) = world.to_home.pop_front() {
                        world.protocol.hear(said);
                    }
                }),
            ];
            if matches!(self.step, Step::Prepare | Step::Commit) {
                all.push(with(World::home_fails));
            }
            all
        }
    }

    #[test]
    fn never_two_bodies_and_never_none() {
        for from in [Side::Home, Side::Room] {
            let (mut seen, mut todo) = (HashSet::new(), vec![World::begin(from)]);
            while let Some(world) = todo.pop() {
                let running = usize::from(world.home_runs) + usize::from(world.body == Body::Runs);
                assert!(running <= 1, "{world:?}");
                let silent = world.to_room.is_empty() && world.to_home.is_empty();
                if world.step == Step::Done && silent {
                    assert_eq!(running, usize::from(!world.dead), "{world:?}");
                    assert!(world.cut || world.protocol.is_settled(), "{world:?}");
                }
                if seen.insert(world.clone()) {
                    todo.extend(world.next());
                }
            }
            assert!(seen.len() > 10, "{}", seen.len());
        }
    }

    /// A move between two rooms: home in the middle, and the messages on both links.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Across {
        from: End,
        to: End,
        step: Step,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct End {
        protocol: Protocol,
        body: Body,
        stands: bool,
        to_room: VecDeque<HomeCommand>,
        to_home: VecDeque<RoomReply>,
        cut: bool,
    }

    impl End {
        fn begin(side: Side, body: Body) -> End {
            let (to_room, to_home) = (VecDeque::new(), VecDeque::new());
            End { protocol: Protocol::new(side), body, stands: false, to_room, to_home, cut: false }
        }

        fn tell(&mut self, told: HomeCommand) {
            self.protocol.tell(told).unwrap();
            if !self.cut {
                self.to_room.push_back(told);
            }
        }

        fn obeys(&mut self) {
            if let Some(told) = self.to_room.pop_front() {
                self.to_home.extend(obey(told, &mut self.body));
            }
        }

        fn hears(&mut self) {
            if let Some(said) = self.to_home.pop_front() {
                self.protocol.hear(said);
            }
        }

        fn loses_link(&mut self) {
            (self.cut, self.body) = (true, Body::None);
            self.to_room.clear();
            self.to_home.clear();
        }

        fn is_settled(&self) -> bool {
            self.cut || self.protocol.is_settled() && self.to_room.is_empty() && self.to_home.is_empty()
        }
    }

    impl Across {
        fn goes_on(&mut self) {
            match self.step {
                Step::Prepare => {
                    self.from.tell(HomeCommand::Recall);
                    self.step = Step::Commit;
                }
                // All state was sent, and the body is complete in the other room.
                Step::Commit if self.from.protocol.is_settled() && self.to.stands && !self.to.cut && !self.from.cut => {
                    self.from.protocol.passed();
                    self.to.protocol.taken();
                    self.to.tell(HomeCommand::Resume);
                    self.from.tell(HomeCommand::Release);
                    self.step = Step::Settle;
                }
                Step::CallOff => {
                    self.from.tell(HomeCommand::Resume);
                    self.to.tell(HomeCommand::Release);
                    self.step = Step::Settle;
                }
                Step::Settle if self.from.is_settled() && self.to.is_settled() => self.step = Step::Done,
                _ => {}
            }
        }

        fn next(&self) -> Vec<Across> {
            let with = |change: fn(&mut Across)| {
                let mut next = self.clone();
                change(&mut next);
                next
            };
            let mut all = vec![
                with(Across::goes_on),
                with(|world| world.from.obeys()),
                with(|world| world.to.obeys()),
                with(|world| world.from.hears()),
                with(|world| world.to.hears()),
                with(|world| world.from.loses_link()),
                with(|world| world.to.loses_link()),
                // The other room rebuilds the state that the first room has sent.
                with(|world| world.to.stands |= world.from.body == Body::Still && world.to.body == Body::Still),
            ];
            if matches!(self.step, Step::Prepare | Step::Commit) {
                all.push(with(|world| world.step = Step::CallOff));
            }
            all
        }
    }

    #[test]
    fn never_two_bodies_and_never_none_from_room_to_room() {
        let (from, to) = (End::begin(Side::Room, Body::Runs), End::begin(Side::Beyond, Body::Still));
        let (mut seen, mut todo) = (HashSet::new(), vec![Across { from, to, step: Step::Prepare }]);
        let mut gone_on = false;
        while let Some(world) = todo.pop() {
            let running = [&world.from, &world.to].iter().filter(|end| end.body == Body::Runs).count();
            assert!(running <= 1, "{world:?}");
            if world.step == Step::Done {
                // The owner decides: the process dies with the room that owns it.
                let owner = if world.to.protocol.owner() == Side::Room { &world.to } else { &world.from };
                assert_eq!(running, usize::from(!owner.cut), "{world:?}");
                gone_on |= world.to.body == Body::Runs;
                // The room that does not own the process keeps nothing of it.
                assert!(world.from.body == Body::None || world.to.body == Body::None, "{world:?}");
            }
            if seen.insert(world.clone()) {
                todo.extend(world.next());
            }
        }
        assert!(seen.len() > 100 && gone_on, "{}", seen.len());
    }

    #[test]
    fn commands_that_break_ownership_are_refused() {
        let mut out = Protocol::new(Side::Home);
        assert_eq!(out.tell(HomeCommand::Recall), Err(OutOfOrder(HomeCommand::Recall)));
        out.tell(HomeCommand::Resume).unwrap();
        // The process runs in the room: home can neither call the move off nor begin it twice.
        assert_eq!(out.tell(HomeCommand::Release), Err(OutOfOrder(HomeCommand::Release)));
        assert_eq!(out.tell(HomeCommand::Resume), Err(OutOfOrder(HomeCommand::Resume)));
        let mut home = Protocol::new(Side::Room);
        home.tell(HomeCommand::Recall).unwrap();
        assert_eq!(home.tell(HomeCommand::Release), Err(OutOfOrder(HomeCommand::Release)));
        home.hear(RoomReply::Whole);
        home.arrived();
        assert_eq!(home.tell(HomeCommand::Resume), Err(OutOfOrder(HomeCommand::Resume)));
        let mut on = Protocol::new(Side::Beyond);
        // The other room owns the process.
        assert_eq!(on.tell(HomeCommand::Resume), Err(OutOfOrder(HomeCommand::Resume)));
        on.taken();
        // No other side owns the process any more.
        assert_eq!(on.tell(HomeCommand::Release), Err(OutOfOrder(HomeCommand::Release)));
        on.tell(HomeCommand::Resume).unwrap();
        let mut left = Protocol::new(Side::Room);
        left.passed();
        assert_eq!(left.tell(HomeCommand::Resume), Err(OutOfOrder(HomeCommand::Resume)));
        left.tell(HomeCommand::Release).unwrap();
    }

    #[test]
    fn a_cancelled_transfer_must_end_first() {
        let mut home = Protocol::new(Side::Room);
        home.tell(HomeCommand::Recall).unwrap();
        home.tell(HomeCommand::Resume).unwrap();
        assert!(!home.is_settled());
        home.hear(RoomReply::Whole);
        assert!(home.is_settled());
    }
}
