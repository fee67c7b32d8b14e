//! Sets up, builds, tests and runs memslot.
fn main() {}
