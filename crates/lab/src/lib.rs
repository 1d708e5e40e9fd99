//! A cluster in one machine.
