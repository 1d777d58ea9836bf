//! svc-pgdump: a whole plain dump of one database, or nothing.

fn main() {}
