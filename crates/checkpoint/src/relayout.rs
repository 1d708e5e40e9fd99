//! Changes of a memory layout from an earlier image to a later one. Areas that are the same in both
//! stay, with their pages.

use image::{Area, Content};

/// The changes of a memory layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Start and end of ranges to unmap.
    pub gone: Vec<(u64, u64)>,
    /// Areas to map, empty.
    pub fresh: Vec<Area>,
    /// Start and end of ranges that stay.
    pub kept: Vec<(u64, u64)>,
}

/// Compares two lists of areas, both ascending. Areas that show a memory are mapped later.
pub fn changes(old: &[Area], new: &[Area]) -> Changes {
    let laid_out = |areas: &[Area]| areas.iter().filter(|a| !a.is_mapped_last()).copied().collect::<Vec<_>>();
    let (old, new) = (&laid_out(old)[..], &laid_out(new)[..]);
    let mut kept = Vec::new();
    let mut first = 0;
    for area in new {
        while old.get(first).is_some_and(|o| o.end <= area.start) {
            first += 1;
        }
        for before in old[first..].iter().take_while(|o| o.start < area.end).filter(|o| alike(o, area)) {
            kept.push((before.start.max(area.start), before.end.min(area.end)));
        }
    }
    let all = |areas: &[Area]| areas.iter().map(|a| (a.start, a.end)).collect::<Vec<_>>();
    let gone = os::pages::subtract(&all(old), &kept);
    let fresh = new.iter().flat_map(|area| {
        os::pages::subtract(&[(area.start, area.end)], &kept).into_iter().map(|(start, end)| part(area, start, end))
    });
    Changes { gone, fresh: fresh.collect(), kept }
}

fn alike(a: &Area, b: &Area) -> bool {
    let content = match (a.content, b.content) {
        (Content::File { file, offset }, Content::File { file: other, offset: theirs }) => {
            file == other && offset.wrapping_sub(a.start) == theirs.wrapping_sub(b.start)
        }
        (a, b) => a == b,
    };
    content && Area { start: 0, end: 0, content: b.content, ..*a } == Area { start: 0, end: 0, ..*b }
}

fn part(area: &Area, start: u64, end: u64) -> Area {
    let content = match area.content {
        Content::File { file, offset } => Content::File { file, offset: offset + (start - area.start) },
        other => other,
    };
    Area { start, end, content, ..*area }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64) -> Area {
        Area::anonymous(start, end, 3)
    }

    fn file(start: u64, end: u64, offset: u64) -> Area {
        Area { content: Content::File { file: 1, offset }, ..area(start, end) }
    }

    #[test]
    fn the_same_stays() {
        let areas = [area(0x1000, 0x3000), file(0x3000, 0x5000, 0x1000)];
        let changes = changes(&areas, &areas);
        assert_eq!((changes.gone, changes.fresh), (vec![], vec![]));
        assert_eq!(changes.kept, [(0x1000, 0x3000), (0x3000, 0x5000)]);
    }

    #[test]
    fn growth_and_splits_keep_what_was_there() {
        let found = changes(&[area(0x1000, 0x3000)], &[area(0x1000, 0x2000), area(0x2000, 0x5000)]);
        assert_eq!(found.kept, [(0x1000, 0x2000), (0x2000, 0x3000)]);
        assert_eq!((found.gone, found.fresh), (vec![], vec![area(0x3000, 0x5000)]));
        let found = changes(&[file(0x3000, 0x6000, 0x1000)], &[file(0x4000, 0x8000, 0x2000)]);
        assert_eq!((found.gone, found.kept), (vec![(0x3000, 0x4000)], vec![(0x4000, 0x6000)]));
        assert_eq!(found.fresh, [file(0x6000, 0x8000, 0x4000)]);
    }

    #[test]
    fn differing_areas_are_mapped_anew() {
        let read_only = Area { protection: 1, ..area(0x1000, 0x3000) };
        let found = changes(&[area(0x1000, 0x3000)], &[read_only]);
        assert_eq!((found.gone, found.fresh, found.kept), (vec![(0x1000, 0x3000)], vec![read_only], vec![]));
        let found = changes(&[file(0x1000, 0x3000, 0)], &[file(0x1000, 0x3000, 0x1000)]);
        assert_eq!(found.kept, []);
    }
}
