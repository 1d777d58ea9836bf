//! `--resume`: an upgrade and a rollback that are interrupted, in every way and at every step, and resumed.

mod auto;
mod cut;
mod full_disk;
mod installer;
mod journey;
mod power;
mod steps;
