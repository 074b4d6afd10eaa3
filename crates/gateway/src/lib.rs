//! Consoles and commands in guests, behind the API server.
