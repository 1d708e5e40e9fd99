//! The tree in which copies of a process spread over nodes.
//!
//! Home sends the memory of the first copy alone. Each copy that has arrived lends its pages to
//! later ones, so the number of sources grows with each wave, and home sends one image in all. A
//! small image goes from home to all nodes at once: waves would cost more time than the bytes.

use std::collections::VecDeque;

/// Copies that one source serves at once. Two fill a link in both directions of a chain, and keep
/// the tree flat.
const SERVED_AT_ONCE: usize = 2;

/// The place from which the memory of a copy comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Home sends it.
    Home,
    /// The copy of this rank lends it.
    Copy(usize),
}

/// The sources that are free.
#[derive(Debug)]
pub struct Tree {
    waves: bool,
    free: VecDeque<Source>,
    under_way: usize,
}

impl Tree {
    /// Creates the tree. `waves`: the image is large enough for it.
    pub fn new(waves: bool) -> Tree {
        Tree { waves, free: VecDeque::new(), under_way: 0 }
    }

    /// Takes the source for the next copy. `None`: a copy must end first ([`Tree::ended`]). A copy
    /// that does not live lends nothing.
    pub fn next(&mut self, lives: impl Fn(usize) -> bool) -> Option<Source> {
        let source = if self.waves { self.free_source(lives)? } else { Source::Home };
        self.under_way += 1;
        Some(source)
    }

    fn free_source(&mut self, lives: impl Fn(usize) -> bool) -> Option<Source> {
        while let Some(source) = self.free.pop_front() {
            match source {
                Source::Copy(rank) if lives(rank) => return Some(source),
                _ => {}
            }
        }
        (self.under_way == 0).then_some(Source::Home)
    }

    /// Notes that the copy of this rank has arrived, or failed (`false`), and that its source is
    /// free.
    pub fn ended(&mut self, rank: usize, source: Source, arrived: bool) {
        self.under_way -= 1;
        self.free.extend(Some(source).filter(|source| *source != Source::Home));
        let serves = if arrived { SERVED_AT_ONCE } else { 0 };
        self.free.extend(std::iter::repeat_n(Source::Copy(rank), serves));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks that begin together, with their sources.
    fn wave(tree: &mut Tree, from: usize, most: usize) -> Vec<(usize, Source)> {
        (from..most).map_while(|rank| Some((rank, tree.next(|_| true)?))).collect()
    }

    #[test]
    fn home_sends_one_image_and_the_tree_grows_threefold() {
        let (mut tree, mut begun, mut sizes) = (Tree::new(true), 0, Vec::new());
        while begun < 100 {
            let wave = wave(&mut tree, begun, 100);
            begun += wave.len();
            sizes.push(wave.len());
            assert_eq!(
                wave.iter().filter(|(_, source)| *source == Source::Home).count(),
                usize::from(sizes.len() == 1)
            );
            wave.into_iter().for_each(|(rank, source)| tree.ended(rank, source, true));
        }
        assert_eq!(sizes, [1, 2, 6, 18, 54, 19]);
    }

    #[test]
    fn a_small_image_goes_to_all_at_once() {
        let mut tree = Tree::new(false);
        assert!(wave(&mut tree, 0, 100).iter().all(|(_, source)| *source == Source::Home));
    }

    #[test]
    fn a_copy_that_failed_or_died_lends_nothing() {
        let mut tree = Tree::new(true);
        assert_eq!((tree.next(|_| true), tree.next(|_| true)), (Some(Source::Home), None));
        tree.ended(0, Source::Home, false);
        assert_eq!(tree.next(|_| true), Some(Source::Home), "home tries the next one");
        tree.ended(1, Source::Home, true);
        assert_eq!(tree.next(|_| true), Some(Source::Copy(1)));
        assert_eq!(tree.next(|rank| rank != 1), None, "it waits for the one under way");
        tree.ended(2, Source::Copy(1), true);
        assert_eq!(tree.next(|rank| rank != 1), Some(Source::Copy(2)));
    }
}
