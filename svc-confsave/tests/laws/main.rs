//! The laws of the merge, on configurations that are made at random: as trees, and as texts of both layouts.

mod conf;
mod texts;
mod trees;
mod yaml;
