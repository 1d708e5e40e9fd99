//! Why a body must go home.

use serde::{Deserialize, Serialize};

/// The longest file name that is told, bytes (PATH_MAX of linux/limits.h).
const FILE_BYTES_MAX: usize = 4096;

/// What a body has to do at home, and cannot do away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Errand {
    /// A call that only home's kernel can make.
    Call {
        /// The number of the system call.
        nr: u32,
        /// The file that the call is about, if it is about one.
        file: Option<Vec<u8>>,
    },
    /// A signal ends the process, and its core file is written where its files are.
    Core {
        /// The signal that is meant.
        signal: i32,
    },
}

impl Errand {
    /// This call, about no file.
    pub fn call(nr: u32) -> Errand {
        Errand::Call { nr, file: None }
    }

    /// This call about a file; a longer name than the kernel allows is cut off.
    pub fn call_on(nr: u32, file: &[u8]) -> Errand {
        Errand::Call { nr, file: Some(file[..file.len().min(FILE_BYTES_MAX)].to_vec()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let Errand::Call { file: Some(file), .. } = Errand::call_on(9, &[b'x'; 9000]) else { panic!("no file") };
        assert_eq!(file.len(), FILE_BYTES_MAX);
    }
}
