//! svc-version: the marker, installers' names and checksums, and the upgrade path.

mod check;
mod find;
mod installer;
mod marker;
mod page;
mod place;
mod plan;
mod record;
