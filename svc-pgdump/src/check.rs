//! The check of a plain dump: is it complete, what does it hold, and what does it need?

mod complete;
mod encoding;
pub mod lexer;
pub mod tokens;

pub use self::complete::{Contents, Dump, Examiner, TableRows, incomplete, major};
