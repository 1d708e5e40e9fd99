//! What the layer `supervisor` keeps of memory and images that come and go: queues to the threads
//! that write them, links to other rooms, and who has the pages. Imports nothing above `state`.

pub mod direct_links;
pub mod homeward_tries;
pub mod incoming_queue;
pub mod page_source;
pub mod peer_pages;
pub mod postcopy_queue;
pub mod windows;
