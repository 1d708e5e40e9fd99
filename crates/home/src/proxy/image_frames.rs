//! Frames with the image and the pages of a process that comes home.

use crate::room::event::RoomEvent;
use crate::room::page_frame::Pages;
use crate::room::state::Room;
use link::Body;
use room_protocol::ToRoom;

/// A part of the image of a process that comes home.
pub fn image_part(room: &Room, body: &[u8]) {
    if let Some((pid, last, bytes)) = room_protocol::page_frames::part(body) {
        room.sessions.tell(pid, RoomEvent::Part(bytes.to_vec(), last));
    }
}

/// Pages of a process that comes home.
pub fn image_pages(room: &Room, body: Body, wire_bytes: u32) {
    if let Some((pid, pages)) = Pages::of(body) {
        room.sessions.count_wire(pid, wire_bytes.into());
        room.sessions.tell(pid, RoomEvent::Pages(pages));
    }
}

/// Pages of a process that are here from before it left.
pub fn pages_stocked(room: &Room, body: &[u8]) {
    if let Some((pid, runs)) = room_protocol::page_frames::later(body) {
        room.sessions.tell(pid, RoomEvent::There(runs));
    }
}

/// Pages of a process that may be the same when it stops.
pub fn pages_advance(room: &Room, body: Body, wire_bytes: u32) {
    if let Some((pid, number, pages)) = Pages::advance(body) {
        room.sessions.count_wire(pid, wire_bytes.into());
        room.sessions.tell(pid, RoomEvent::Advance(number, pages));
    }
}

/// Pages of a process that come, and are full.
pub fn pages_dense(room: &Room, body: &[u8]) {
    if let Some((pid, runs)) = room_protocol::page_frames::later(body) {
        room.sessions.tell(pid, RoomEvent::HugePageHints(runs));
    }
}

/// Pages of a process that will follow it home.
pub fn pages_later(room: &Room, body: &[u8]) {
    if let Some((pid, runs)) = room_protocol::page_frames::later(body) {
        room.sessions.tell(pid, RoomEvent::Later(runs));
    }
}

/// Pages that a process that runs at home again never had.
pub fn pages_vacant(room: &Room, body: &[u8]) {
    let Some((pid, runs)) = room_protocol::page_frames::later(body) else { return };
    let pager = room.pagers().get(&pid).cloned();
    if let Some(pager) = pager {
        pager.vacate(&runs);
    }
}

/// Pages of a process that runs at home again.
pub fn pages_pushed(room: &Room, body: &[u8], wire_bytes: u32) {
    let Some((pages, zeros)) = room_protocol::page_frames::pushed(body) else { return };
    room.sessions.count_wire(pages.pid, wire_bytes.into());
    let pager = room.pagers().get(&pages.pid).cloned();
    if let Some(pager) = pager {
        pager.put_zeros(&zeros);
        pager.put(&pages.runs, pages.bytes);
    }
    room.tell(&ToRoom::Filled { pid: pages.pid });
}
