//! Fuzzing of the checks of images and pages from a hostile node, up to the point where a process
//! would be changed. Fuzz targets and tests call this.

use crate::memories::{self, Window};
use crate::pages::Run;
use crate::rebuild::{Given, free_place, map};
use crate::{BodyError, Changes, changes, lie_within};
use image::{Area, Image};
use os::inject::{Batch, Memory};

/// Decodes an image, and does all that both ends do with one.
///
/// # Panics
/// An accepted image is inconsistent, or the plan that follows from it is.
pub fn image(input: &[u8]) {
    let Ok(image) = Image::decode(&image::fuzz::bytes(input)) else { return };
    assert!(image::shown(&image).starts_with("process"));
    let again = image.encode().map(|bytes| Image::decode(&bytes));
    assert!(again.is_err() || again == Ok(Ok(image.clone())), "an image is not what it was when it is read again");
    let bytes = image.bytes();
    assert!(bytes <= image::fuzz::TOP, "more memory than there is: {bytes}");
    let example = image::fuzz::example();
    for (old, new) in [(&example, &image), (&image, &example), (&image, &image)] {
        check_changes(&changes(&old.areas, &new.areas), &new.areas);
    }
    if let Ok(at) = free_place(image.areas.iter().map(|a| (a.start, a.end))) {
        assert!(image.areas.iter().all(|a| a.end <= at || at + os::inject::REGION_BYTES <= a.start));
    }
    let mut fired = image.clone();
    crate::fire_again(&mut fired);
    plan(&image);
}

/// Plans the calls that would be made in a process, which has none of the image's files.
fn plan(image: &Image) {
    let mut batch = Batch::new(0);
    crate::set_process(&mut batch, image, &Given::default(), true);
    crate::arm_timers(&mut batch, &image.process.timers);
    image.areas.iter().for_each(|area| map(&mut batch, area, &Given::default()));
    for thread in &image.threads {
        crate::give_way(&mut batch, thread);
        crate::rare_state::set_thread(&mut batch, &thread.settings);
    }
}

fn check_changes(found: &Changes, new: &[Area]) {
    let fresh: Vec<(u64, u64)> = found.fresh.iter().map(|a| (a.start, a.end)).collect();
    let is_new = |(start, end): &(u64, u64)| new.iter().any(|a| a.start <= *start && *end <= a.end);
    assert!(fresh.iter().chain(&found.kept).all(is_new), "memory outside of the image: {found:?}");
    let mut all = [&fresh[..], &found.kept].concat();
    all.sort_unstable();
    assert!(all.windows(2).all(|w| w[0].1 <= w[1].0), "memory twice: {found:?}");
}

/// Puts pages into a process whose private memory is `areas` and whose one shared memory lies at
/// `shared` (address and bytes).
///
/// # Errors
/// The pages lie elsewhere.
pub fn put(runs: &[Run], bytes: &[u8], areas: &[Area], shared: Run, memory: &Memory) -> Result<(), BodyError> {
    let windows = [Window::of_memory(shared.0, shared.1)];
    let put = memories::put(runs, bytes, areas, &windows, memory);
    let is_private = lie_within(runs, areas);
    let is_shared = runs.iter().all(|run| run.0 >= memories::OUTSIDE);
    assert!(put.is_err() || is_private || is_shared, "pages lie outside of the process: {runs:?}");
    put
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2000)))]

        #[test]
        fn any_image_is_refused_or_makes_sense(input in proptest::collection::vec(any::<u8>(), 0..600)) {
            image(&input);
        }
    }

    /// Has failed: the offset of a part of an area overflowed.
    #[test]
    fn a_file_far_beyond_its_end_is_refused() {
        let mut strange = image::fuzz::example();
        let content = image::Content::File { file: 0, offset: u64::MAX - 4095 };
        strange.areas[0] = Area { content, start: 0x1000, end: 0x5000, ..strange.areas[0] };
        strange.areas.truncate(1);
        assert!(Image::decode(&strange.encode().unwrap()).is_err());
    }
}
