//! `tern cp`: files to nodes and back, without any program on the nodes. An archive goes through a
//! pipe: at its other end is this very program, in node-local mode.

mod archive;

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};

use control_protocol::nodes::Nodes;

use crate::args::{Copy, Place};
use crate::{Dirs, Error, nodes, sh};

pub use archive::{PACK_ROLE, UNPACK_ROLE, role};

/// Copies. Gives the exit status: 1 if a node has failed.
pub(crate) fn copy(dirs: &Dirs, args: &Copy) -> Result<u8, Error> {
    let usage = |reason: &str| Error::Refused {
        reason: reason.to_owned(),
        hint: Some("tern cp FILE NODES:PATH, or tern cp NODES:PATH FILE".to_owned()),
    };
    let Some((target, sources)) = args.places.split_last() else { return Err(usage("files are missing")) };
    let here: Vec<&Path> =
        sources.iter().filter_map(|s| if let Place::Here(p) = s { Some(p.as_path()) } else { None }).collect();
    match target {
        Place::There(nodes, path) if here.len() == sources.len() => Copying { dirs, args }.to(&here, nodes, path),
        Place::Here(path) if here.is_empty() => Copying { dirs, args }.from(sources, path),
        _ => Err(usage("either the sources or the target are on nodes")),
    }
}

struct Copying<'a> {
    dirs: &'a Dirs,
    args: &'a Copy,
}

impl Copying<'_> {
    fn to(&self, sources: &[&Path], nodes: &Nodes, path: &str) -> Result<u8, Error> {
        let many = if sources.len() == 1 { "one" } else { "many" };
        let mut children = Vec::new();
        let mut inputs = Vec::new();
        for node in nodes::chosen(self.dirs, nodes)? {
            let mut child = self.start(&node, &[UNPACK_ROLE, path, many], Stdio::piped(), Stdio::null())?;
            inputs.extend(child.stdin.take());
            children.push((node, child));
        }
        let packed = archive::pack(sources, self.args.recursive, Tee(inputs));
        let status = self.ends(children)?;
        packed.map_err(|source| Error::Local { what: "read the files", source })?;
        Ok(status)
    }

    fn from(&self, sources: &[Place], target: &Path) -> Result<u8, Error> {
        let mut worst = 0;
        let (mut of_nodes, mut all) = (Vec::new(), 0);
        for source in sources {
            let Place::There(nodes, path) = source else { continue };
            let names = nodes::chosen(self.dirs, nodes)?;
            all += names.len();
            of_nodes.push((names, path));
        }
        let is_apart = of_nodes.iter().any(|(names, _)| names.len() > 1);
        for (names, path) in of_nodes {
            for node in names {
                let to = if is_apart { target.join(&node) } else { target.to_owned() };
                if is_apart {
                    std::fs::create_dir_all(&to).map_err(|source| Error::Local { what: "make a directory", source })?;
                }
                worst = worst.max(self.one_from(&node, path, &to, all == 1)?);
            }
        }
        Ok(worst)
    }

    fn one_from(&self, node: &str, path: &str, target: &Path, alone: bool) -> Result<u8, Error> {
        let deep = if self.args.recursive { "deep" } else { "flat" };
        let mut child = self.start(node, &[PACK_ROLE, path, deep], Stdio::null(), Stdio::piped())?;
        let Some(output) = child.stdout.take() else { return Ok(1) };
        let unpacked = archive::unpack(output, target, alone);
        let status = self.ends(vec![(node.to_owned(), child)])?;
        match (status, unpacked) {
            // The node has said why.
            (1.., _) => Ok(status),
            (0, done) => done.map(|()| 0).map_err(|source| Error::Local { what: "write the files", source }),
        }
    }

    /// Starts this program on a node.
    fn start(&self, node: &str, words: &[&str], input: Stdio, output: Stdio) -> Result<Child, Error> {
        let failed = |source| Error::Local { what: "start tern run", source };
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = sh::command(self.dirs, node, self.args.as_root);
        command.arg("--").arg(program).args(words);
        command.stdin(input).stdout(output).stderr(Stdio::inherit()).spawn().map_err(failed)
    }

    fn ends(&self, children: Vec<(String, Child)>) -> Result<u8, Error> {
        let mut worst = 0;
        for (node, mut child) in children {
            let status = child.wait().map_err(|source| Error::Local { what: "wait for a node", source })?;
            if !status.success() {
                eprintln!("tern cp: {node}: {}", words(status));
                worst = 1;
            }
        }
        Ok(worst)
    }
}

fn words(status: ExitStatus) -> String {
    match status.code() {
        Some(_) => "not copied".to_owned(),
        None => status.to_string(),
    }
}

/// Writes to all. One that takes no more, or has ended, keeps the others from nothing: it has said
/// why.
struct Tee(Vec<ChildStdin>);

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.retain_mut(|input| input.write_all(bytes).is_ok());
        match self.0.is_empty() {
            true => Err(std::io::ErrorKind::BrokenPipe.into()),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
