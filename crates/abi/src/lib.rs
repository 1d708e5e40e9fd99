//! What a steward and a deputy blob say to each other.
