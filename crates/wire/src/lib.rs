//! Frames and messages between a steward and a warden.
