//! The check of a plain dump: is it complete, what does it hold, and what does it need?

mod complete;
mod encoding;
pub mod lexer;
mod sql;
pub mod tokens;

pub use self::complete::{Dump, Examiner, INTERNAL_OPTION, TableRows, incomplete, major};
