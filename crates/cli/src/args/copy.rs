//! The arguments of `tern cp`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use control_protocol::nodes::{Nodes, NodesError};

/// The text after the help of `tern cp`.
pub const COPY_HELP: &str = "\
NODES:PATH names a place on nodes (NODES as in `tern sh`). Either all sources or the target are such places. tern puts
files from several nodes into a directory for each: TARGET/NODE. As with `tern sh`, each node's owner allows the copy
by `tern policy set local-by=NODE`. The nodes need no program for it.
  tern cp -r job n[2-9]:/tmp        tern cp n2:/var/log/messages .        tern cp -r all:/tmp/results out";

/// The arguments of `tern cp`.
#[derive(Clone, Debug, Args)]
pub struct Copy {
    /// Copy directories with all that is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// Allow processes of root (see `tern run --help`)
    #[arg(long)]
    pub as_root: bool,
    /// Files, and at the end the file or directory to which they go
    #[arg(required = true, num_args = 2.., value_name = "PLACE")]
    pub places: Vec<Place>,
}

/// A file or directory, here or on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this machine.
    Here(PathBuf),
    /// On nodes, by their own files.
    There(Nodes, String),
}

impl FromStr for Place {
    type Err = NodesError;

    fn from_str(text: &str) -> Result<Place, NodesError> {
        match text.split_once(':') {
            // As for scp(1), a slash before the colon makes it part of a name.
            Some((nodes, path)) if !nodes.contains('/') => {
                let path = if path.is_empty() { "." } else { path };
                Ok(Place::There(Nodes::parse(nodes)?, path.to_owned()))
            }
            _ => Ok(Place::Here(text.into())),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Here(path) => write!(f, "{}", path.display()),
            Place::There(nodes, path) => write!(f, "{nodes}:{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_behind_a_slash_is_of_a_name() {
        for (text, shown) in [("n[2-3]:/tmp", "n[2-3]:/tmp"), ("n2:", "n2:."), ("./a:b", "./a:b"), ("a", "a")] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), shown);
        }
        assert!(matches!("./a:b".parse(), Ok(Place::Here(_))) && matches!("all:x".parse(), Ok(Place::There(..))));
        assert!("n[:x".parse::<Place>().is_err());
    }
}
