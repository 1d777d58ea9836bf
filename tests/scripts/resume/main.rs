//! `--resume`: an upgrade and a rollback that are cut off, in every way and at every step, and gone on with.

mod auto;
mod cut;
mod hops;
mod installer;
mod journey;
mod power;
mod room;
mod steps;
mod terminal;
