//! The files that an image names, each once.

use image::File;

/// A list that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(Vec<File>);

impl Files {
    /// Place of a file that is mapped or executed: one place for all who open it alike.
    pub fn shared(&mut self, file: File) -> u32 {
        match self.0.iter().position(|known| *known == file) {
            Some(place) => place as u32,
            None => self.own(file),
        }
    }

    /// A place of its own: an open file has an offset.
    pub fn own(&mut self, file: File) -> u32 {
        self.0.push(file);
        self.0.len() as u32 - 1
    }

    /// The list.
    pub fn list(&self) -> &[File] {
        &self.0
    }
}
