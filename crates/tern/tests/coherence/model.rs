//! The files of a directory as one machine would have them.

use std::collections::BTreeMap;

/// Files by name; names may share a file no longer named elsewhere, and files may be open without a
/// name.
#[derive(Default)]
pub struct Model {
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
}

impl Model {
    /// Gives the file of a name.
    pub fn file(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Gives the file of a name, and makes it if there is none.
    pub fn made(&mut self, name: &str) -> usize {
        if let Some(file) = self.file(name) {
            return file;
        }
        self.files.push(Vec::new());
        self.names.insert(name.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }

    /// Writes at an offset.
    pub fn write(&mut self, file: usize, offset: usize, text: &str) {
        let content = &mut self.files[file];
        let end = offset + text.len();
        content.resize(content.len().max(end), 0);
        content[offset..end].copy_from_slice(text.as_bytes());
    }

    /// Appends to a file.
    pub fn append(&mut self, file: usize, text: &str) {
        self.files[file].extend_from_slice(text.as_bytes());
    }

    /// Cuts or extends a file.
    pub fn truncate(&mut self, file: usize, bytes: usize) {
        self.files[file].resize(bytes, 0);
    }

    /// Gives what a reader sees, as the agent shows it (C strings end at a zero byte).
    pub fn shown(&self, file: usize) -> String {
        let content = &self.files[file];
        let bytes = content.iter().position(|byte| *byte == 0).unwrap_or(content.len());
        format!("{}.", String::from_utf8_lossy(&content[..bytes]))
    }

    /// Gives the size of a file.
    pub fn size(&self, file: usize) -> usize {
        self.files[file].len()
    }

    /// Gives a file another name; returns false if there is no such name.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        match self.names.remove(from) {
            Some(file) => {
                self.names.insert(to.to_owned(), file);
                true
            }
            None => false,
        }
    }

    /// Removes a name; returns false if there is none.
    pub fn remove(&mut self, name: &str) -> bool {
        self.names.remove(name).is_some()
    }
}
