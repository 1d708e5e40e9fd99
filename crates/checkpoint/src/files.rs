//! The list of the files that an image names.

use image::File;

/// A list of files that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(Vec<File>);

impl Files {
    /// Gives the index of a mapped or executed file; all uses with the same flags share one index.
    pub fn shared(&mut self, file: File) -> u32 {
        match self.0.iter().position(|known| *known == file) {
            Some(place) => place as u32,
            None => self.own(file),
        }
    }

    /// Gives an index of its own, because an open file has an offset.
    pub fn own(&mut self, file: File) -> u32 {
        self.0.push(file);
        self.0.len() as u32 - 1
    }

    /// Gives all files.
    pub fn list(&self) -> &[File] {
        &self.0
    }
}
