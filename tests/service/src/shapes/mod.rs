//! The shapes of the content, one number for both databases.

pub mod indices;
pub mod tables;
