//! Who asks for a placement must be who is placed.
