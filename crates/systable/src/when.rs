//! Conditions on arguments, for calls that are local most of the time.

/// When a row's class holds; otherwise the call is local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always: the filter looks at the number alone.
    Always,
    /// If for any of these lists every comparison holds.
    If(&'static [&'static [Cmp]]),
    /// Unless for any of these lists every comparison holds.
    Unless(&'static [&'static [Cmp]]),
}

/// One comparison on one argument (0 to 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    /// The lower 32 bits are this number. For arguments that the kernel takes as `int`.
    Is(u8, u32),
    /// The lower 32 bits, under the mask, are this number.
    Bits(u8, u32, u32),
    /// The lower 32 bits, unsigned, are below this number. For descriptors.
    Below(u8, u32),
    /// The lower 32 bits, unsigned, are this number or above it. For descriptors.
    From(u8, u32),
    /// All 64 bits are zero. For pointers.
    Null(u8),
    /// The upper 32 bits are this number. For descriptors, of which the kernel takes the lower
    /// ones: a mark that it does not see.
    Marked(u8, u32),
}

impl Cmp {
    /// Tells whether the condition holds for these arguments.
    pub fn holds(self, args: &[u64; 6]) -> bool {
        let low = |at: u8| args[usize::from(at)] as u32;
        match self {
            Cmp::Is(at, value) => low(at) == value,
            Cmp::Bits(at, mask, value) => low(at) & mask == value,
            Cmp::Below(at, limit) => low(at) < limit,
            Cmp::From(at, first) => low(at) >= first,
            Cmp::Null(at) => args[usize::from(at)] == 0,
            Cmp::Marked(at, mark) => (args[usize::from(at)] >> 32) as u32 == mark,
        }
    }

    /// Gives the argument that is compared.
    pub const fn argument(self) -> u8 {
        match self {
            Cmp::Is(at, _)
            | Cmp::Bits(at, _, _)
            | Cmp::Below(at, _)
            | Cmp::From(at, _)
            | Cmp::Null(at)
            | Cmp::Marked(at, _) => at,
        }
    }
}

impl When {
    /// For no arguments.
    pub const NEVER: When = When::If(&[]);

    /// Tells whether the row's class holds for these arguments.
    pub fn holds(self, args: &[u64; 6]) -> bool {
        let any = |lists: &[&[Cmp]]| lists.iter().any(|list| list.iter().all(|cmp| cmp.holds(args)));
        match self {
            When::Always => true,
            When::If(lists) => any(lists),
            When::Unless(lists) => !any(lists),
        }
    }
}
