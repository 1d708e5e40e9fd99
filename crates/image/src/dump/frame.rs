//! The frames of a dump.

use crate::section::{IMAGE_BYTES_MAX, ImageError};
use crate::state::Image;
use serde::{Deserialize, Serialize};
use std::io;
use thiserror::Error;

/// The first bytes of a dump. The last one is the generation of the format.
pub(super) const MAGIC: [u8; 8] = *b"terndmp1";
/// Bytes of a frame's head: kind, version, length.
pub(super) const HEAD_BYTES: usize = 8;
/// The version of all frames of this generation.
pub(super) const VERSION: u16 = 1;
/// The most bytes of pages in one frame.
pub const PAGES_BYTES_MAX: usize = 1 << 20;
/// The most runs in one frame.
pub(super) const RUNS_MAX: usize = 4096;
/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;
/// Bytes of an encoded run.
pub(super) const RUN_BYTES: usize = 16;
/// The most bytes of a vDSO's code: more than any kernel has.
const VDSO_BYTES_MAX: usize = 64 << 10;
const ORIGIN_BYTES_MAX: usize = 256 << 10;
/// 65 530 areas may show as many files.
const IDENTITIES_BYTES_MAX: usize = 8 << 20;
const TOTALS_BYTES_MAX: usize = 64;

/// A run of pages: address and bytes.
pub type Run = (u64, u64);

/// The kinds of frames, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Kind {
    /// Carries an [`Origin`].
    Origin = 1,
    /// One [`Identity`] for each file of the image.
    Identities = 2,
    /// Carries an [`Image`].
    Image = 3,
    /// The code of the vDSO that the process used; empty if it had none.
    Vdso = 4,
    /// Pages with their content.
    Pages = 5,
    /// Pages of zeros, without content.
    Zeros = 6,
    /// [`Totals`]; nothing follows.
    End = 7,
}

impl Kind {
    pub(super) fn of(number: u16) -> Option<Kind> {
        use Kind::{End, Identities, Image, Origin, Pages, Vdso, Zeros};
        [Origin, Identities, Image, Vdso, Pages, Zeros, End].into_iter().find(|kind| *kind as u16 == number)
    }

    /// Gives the most bytes of a frame of this kind.
    pub(super) fn bytes_max(self) -> usize {
        match self {
            Kind::Origin => ORIGIN_BYTES_MAX,
            Kind::Identities => IDENTITIES_BYTES_MAX,
            Kind::Image => IMAGE_BYTES_MAX,
            Kind::Vdso => VDSO_BYTES_MAX,
            Kind::Pages => 4 + RUNS_MAX * RUN_BYTES + PAGES_BYTES_MAX,
            Kind::Zeros => 4 + RUNS_MAX * RUN_BYTES,
            Kind::End => TOTALS_BYTES_MAX,
        }
    }

    /// Tells whether a frame of this kind may follow one of kind `last`.
    pub(super) fn follows(self, last: Option<Kind>) -> bool {
        let in_turn = |before: Kind| last == Some(before);
        match self {
            Kind::Origin => last.is_none(),
            Kind::Identities => in_turn(Kind::Origin),
            Kind::Image => in_turn(Kind::Identities),
            Kind::Vdso => in_turn(Kind::Image),
            Kind::Pages | Kind::Zeros | Kind::End => last.is_some_and(|last| last >= Kind::Vdso && last < Kind::End),
        }
    }
}

/// Facts of a dumped process besides its image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of tern that wrote the dump.
    pub tern: String,
    /// The kernel's release (uname(2)).
    pub kernel: String,
    /// The processor's features, sorted, by the names of /proc/cpuinfo.
    pub features: Vec<String>,
    /// The real user of the process. The dump gives no rights: an undumped process has
    /// those of its undumper.
    pub uid: u32,
    /// The real group of the process.
    pub gid: u32,
    /// The command line, words behind each other with a zero byte each; may be cut.
    pub arguments: Vec<u8>,
    /// Soft and hard limits by number (getrlimit(2)), `u64::MAX` for none.
    pub limits: Vec<(u64, u64)>,
    /// CLOCK_MONOTONIC of the process at the dump, nanoseconds.
    pub monotonic_ns: i64,
    /// CLOCK_BOOTTIME of the process at the dump, nanoseconds.
    pub boottime_ns: i64,
    /// CLOCK_REALTIME at the dump, nanoseconds.
    pub realtime_ns: i64,
    /// Parts of the process that the dump lacks, in words.
    pub left_out: Vec<String>,
}

/// Facts that tell the mapped file from another one of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Whether memory shows the file, so that another file would break the process.
    pub is_mapped: bool,
    /// Bytes of the file.
    pub bytes: u64,
    /// Time of its last change, nanoseconds since 1970.
    pub modified_ns: i64,
    /// The build id of a program or library; empty if it has none.
    pub build_id: Vec<u8>,
}

/// How much a dump holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Pages that travelled with their content.
    pub pages: u64,
    /// Pages of zeros that had to be named.
    pub zeros: u64,
}

/// A frame that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first frame.
    Origin(Box<Origin>),
    /// One for each file of the image that follows.
    Identities(Vec<Identity>),
    /// The process without its pages.
    Image(Box<Image>),
    /// Code of the vDSO.
    Vdso(Vec<u8>),
    /// Pages, and their content one behind the other.
    Pages(Vec<Run>, Vec<u8>),
    /// Pages of zeros.
    Zeros(Vec<Run>),
    /// The end of the dump.
    End(Totals),
}

/// Why a stream is no dump.
#[derive(Debug, Error)]
pub enum DumpError {
    /// The stream begins with something else.
    #[error("this is no dump (`tern dump` writes them), or one of another version of tern")]
    Magic,
    /// The stream ends before the dump does.
    #[error("the dump is cut off")]
    CutOff,
    /// A frame has a kind or version that this version of tern does not know.
    #[error("the dump holds what is not known here (frame {kind}, version {version}); upgrade this tern")]
    Unknown {
        /// Number of the kind.
        kind: u16,
        /// Version of the frame.
        version: u16,
    },
    /// A frame comes when it is not its turn.
    #[error("the dump is broken: its {0:?} come out of turn")]
    Turn(Kind),
    /// A frame is longer than any of its kind.
    #[error("the dump is broken: {1} bytes of {0:?} are too many")]
    Size(Kind, usize),
    /// The content of a frame makes no sense.
    #[error("the dump is broken: its {0:?} make no sense")]
    Content(Kind),
    /// The image is broken.
    #[error("the dump is broken: {0}")]
    Image(#[from] ImageError),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
