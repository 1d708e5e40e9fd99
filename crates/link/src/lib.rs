//! One encrypted stream of frames over a socket.
