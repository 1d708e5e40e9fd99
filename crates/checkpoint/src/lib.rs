//! Capturing a stopped process as an image, and restoring a process from an image. The code works
//! on any process that the caller may trace, at home or in a room. The caller provides what differs
//! between the two: which files have names, and what descriptors refer to.

mod again;
mod ahead;
mod areas;
mod collect;
mod copied;
mod descriptors;
mod error;
mod files;
mod foreign_vdso;
mod freeze;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod give;
mod headstart;
mod huge;
mod huge_page_hints;
mod in_flight;
mod keys;
mod lender;
mod memories;
mod missing;
mod objects;
mod open_files;
mod page_cache;
mod pager;
mod pages;
mod peer_pages;
mod rare_state;
mod rebuild;
mod relayout;
mod rewind;
mod rings;
mod tasks;
mod thread_words;
mod timers;
mod visit;
mod watches;

pub use again::as_it_was;
pub use ahead::{Ahead, Course, Rest, Round, is_much, preliminary};
pub use areas::{Memory, check_guards, guards, memory};
pub use collect::{Collected, Known, RESTRICTED, collect, forget, scheduled, strip};
pub use copied::{Copied, FILES_BYTES_MAX};
pub use descriptors::{
    early_flags, free_numbers, free_numbers_from, is_everywhere, is_open_so, is_place, is_there_everywhere, is_written,
    nameable, open_file, removed,
};
pub use error::BodyError;
pub use files::Files;
pub use foreign_vdso::{ForeignVdso, laid_out_with_foreign_vdso};
pub use freeze::{Frozen, Slept, end_its_call, freeze};
pub use give::give;
pub use headstart::{Headstart, Left};
pub use huge::{make_huge, wanted_huge};
pub use huge_page_hints::{HugePageHints, huge_page_ranges};
pub use keys::{find_keys, set_keys};
pub use lender::{Batch as LentBatch, Lender, Lenders, Lent};
pub use memories::{
    Placement, Window, each_content, is_memory, is_removed_memory, kind as memory_kind, make as make_memories, mappers,
    put as put_pages, removed_file, settle as settle_memories, shown as memory_shown,
};
pub use missing::{register, watch_missing};
pub use objects::{Gathered, OpenDescriptor, make_objects, move_up};
pub use open_files::OpenFiles;
pub use os::inject::{Batch, Inside, REGION_BYTES};
pub use page_cache::{CachedPages, PageCache};
pub use pager::Pager;
pub use pages::{PagesToSend, Run, each_batch, each_of, filled_bytes, lie_within, own_runs};
pub use peer_pages::{Divided, PageHash, PeerPages, page_hash};
pub use rare_state::{OTHER_CODE, set_dumpable};
pub use rebuild::{
    Existing, Given, discard, finish, free_place, free_place_for, give_way, map_beside, map_memory, relayout_memory,
    requeue, requeue_own, reset_actions, set_process, unmap_all_but, unmap_beside,
};
pub use relayout::{Changes, changes};
pub use rewind::{may_time_out, rewind};
pub use tasks::{check_others, check_threads};
pub use timers::{arm as arm_timers, fire_again, make as make_timers};
pub use visit::{visit, visit_at_length};
pub use watches::{epoll_event, may_be_told, poll_of, watch_again, watch_anew, watched};
