//! Strings and arrays of strings of C.

use core::ffi::c_char;

/// An array of strings of C that ends with a null pointer.
pub type Words = *const *const c_char;

/// Gives the bytes of a string, without its NUL.
///
/// # Safety
/// The pointer is null, or points to a string that lives as long as the result is used.
pub unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    let mut length = 0;
    // SAFETY: the string ends with NUL, as the caller promises.
    while unsafe { *text.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: so many bytes were just read.
    unsafe { core::slice::from_raw_parts(text.cast(), length) }
}

/// Gives the number of strings.
///
/// # Safety
/// The pointer is null, or points to such an array.
pub unsafe fn count(words: Words) -> usize {
    let mut count = 0;
    // SAFETY: the array ends with a null pointer, as the caller promises.
    while !words.is_null() && !unsafe { *words.add(count) }.is_null() {
        count += 1;
    }
    count
}

/// Finds the value of an environment variable, given as `NAME=`. An empty value counts as none.
///
/// # Safety
/// As for [`count`], and each string as for [`bytes`].
pub unsafe fn value<'a>(environment: Words, name: &[u8]) -> Option<&'a [u8]> {
    for at in 0..unsafe { count(environment) } {
        // SAFETY: `at` is below the count.
        let entry = unsafe { bytes(*environment.add(at)) };
        if entry.len() > name.len() && &entry[..name.len()] == name {
            return Some(&entry[name.len()..]);
        }
    }
    None
}

/// Gives what follows the last slash.
pub fn file_name(path: &[u8]) -> &[u8] {
    let mut from = path.len();
    while from > 0 && path[from - 1] != b'/' {
        from -= 1;
    }
    &path[from..]
}

/// A string of C of bounded length.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
    whole: bool,
}

impl<const N: usize> Text<N> {
    /// The empty string.
    pub fn new() -> Self {
        Text { bytes: [0; N], length: 0, whole: true }
    }

    /// Appends bytes. The text leaves out the bytes that do not fit, and is not whole then.
    pub fn push(&mut self, more: &[u8]) {
        let fits = more.len().min(N - 1 - self.length);
        self.bytes[self.length..self.length + fits].copy_from_slice(&more[..fits]);
        self.length += fits;
        self.whole &= fits == more.len();
    }

    /// Tells whether nothing was left out.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Gives the bytes without the NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Gives the string for C.
    pub fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}
