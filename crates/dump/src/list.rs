//! Lists of the parts and needs of a dump, for people and for programs.

use crate::error::DumpFailed;
use crate::files;
use image::dump::{DumpReader, Frame, Identity, Origin, Totals};
use image::{Content, Descriptor, File, Image, Opened};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Read;

/// A dump that was read to its end, without its pages.
#[derive(Debug, Default)]
pub struct Listing {
    origin: Origin,
    image: Image,
    identities: Vec<Identity>,
    totals: Totals,
}

/// Reads a dump to its end.
///
/// # Errors
/// The stream is no dump, is cut off, or could not be read.
pub fn list<R: Read>(from: R) -> Result<Listing, DumpFailed> {
    let (mut reader, mut found) = (DumpReader::begin(from)?, Listing::default());
    while let Some(frame) = reader.next_frame()? {
        match frame {
            Frame::Origin(origin) => found.origin = *origin,
            Frame::Identities(identities) => found.identities = identities,
            Frame::Image(image) => found.image = *image,
            Frame::End(totals) => found.totals = totals,
            Frame::Vdso(_) | Frame::Pages(..) | Frame::Zeros(_) => {}
        }
    }
    Ok(found)
}

/// A file that a dump needs.
struct Needed<'a> {
    file: &'a File,
    identity: &'a Identity,
    /// Descriptors that show the file.
    descriptors: Vec<i32>,
    is_mapped: bool,
}

impl Needed<'_> {
    /// Tells how the file of that name is here.
    fn here(&self) -> &'static str {
        let path = files::path(self.file).to_string_lossy();
        match files::identity(&path, self.identity.is_mapped) {
            Err(_) => "missing",
            Ok(_) if !self.identity.is_mapped => "there",
            Ok(found) => files::difference(self.identity, &found).map_or("same", |_| "different"),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

impl Listing {
    fn needed(&self) -> Vec<Needed<'_>> {
        let shows =
            |n: u32| self.image.areas.iter().any(|a| matches!(a.content, Content::File { file, .. } if file == n));
        let opens = |d: &&Descriptor, n: u32| matches!(d.opened, Opened::File { file, .. } if file == n);
        let files = (0..).zip(self.image.files.iter().zip(&self.identities));
        let all = files.map(|(n, (file, identity))| Needed {
            file,
            identity,
            descriptors: self.image.descriptors.iter().filter(|d| opens(d, n)).map(|d| d.fd).collect(),
            is_mapped: shows(n),
        });
        all.collect()
    }

    fn command(&self) -> String {
        let words = self.origin.arguments.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        words.map(text).collect::<Vec<_>>().join(" ")
    }

    fn memory_bytes(&self) -> u64 {
        self.image.bytes()
    }

    /// Describes the dump, a line for each fact and file.
    pub fn shown(&self) -> String {
        let (origin, image) = (&self.origin, &self.image);
        let mut out = String::new();
        let mut line = |words: String| {
            let _ = writeln!(out, "{words}");
        };
        line(format!("process {} of user {}: {}", image.process.pid, origin.uid, self.command()));
        line(format!("dumped by tern {} on Linux {}", text(origin.tern.as_bytes()), text(origin.kernel.as_bytes())));
        let (pages, zeros) = (self.totals.pages, self.totals.zeros);
        line(format!("threads {}, memory {} bytes", image.threads.len(), self.memory_bytes()));
        line(format!("pages {pages} with content, {zeros} of zeros named"));
        line(format!("working directory {}", text(&image.process.cwd)));
        for needed in self.needed() {
            let numbers: Vec<String> = needed.descriptors.iter().map(ToString::to_string).collect();
            let mut how: Vec<String> = Vec::new();
            how.extend(needed.is_mapped.then(|| "mapped".to_owned()));
            how.extend((!numbers.is_empty()).then(|| format!("open as {}", numbers.join(", "))));
            how.extend(how.is_empty().then(|| "the program".to_owned()));
            line(format!("file {} ({}): {}", text(&needed.file.path), how.join(", "), needed.here()));
        }
        for left_out in &origin.left_out {
            line(format!("left out: {}", text(left_out.as_bytes())));
        }
        out
    }

    /// Gives the same as JSON.
    pub fn json(&self) -> Value {
        let (origin, image) = (&self.origin, &self.image);
        let raw = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let file = |needed: &Needed<'_>| {
            json!({
                "path": raw(&needed.file.path), "mapped": needed.is_mapped, "descriptors": needed.descriptors,
                "bytes": needed.identity.bytes, "modified_ns": needed.identity.modified_ns,
                "build_id": hexadecimal(&needed.identity.build_id), "here": needed.here(),
            })
        };
        let words = origin.arguments.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        json!({
            "pid": image.process.pid, "uid": origin.uid, "gid": origin.gid,
            "arguments": words.map(raw).collect::<Vec<_>>(),
            "tern": origin.tern, "kernel": origin.kernel, "dumped_ns": origin.realtime_ns,
            "threads": image.threads.len(), "memory_bytes": self.memory_bytes(),
            "pages": self.totals.pages, "zero_pages": self.totals.zeros,
            "working_directory": raw(&image.process.cwd),
            "files": self.needed().iter().map(file).collect::<Vec<_>>(),
            "left_out": origin.left_out,
        })
    }
}
