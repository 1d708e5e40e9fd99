//! The cluster's authority, node certificates and invitations.
