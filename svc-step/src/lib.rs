//! What the six tools, `svc-run` and `svc-point` share: the contract that they keep.
//!
//! One call of a tool does one step and prints one JSON document on stdout; people are spoken to on stderr only.
//! A tool is a type that implements [`tool::Tool`]; its `main.rs` hands over to [`tool::main`], which parses the command
//! line, catches signals, makes the [`call::Call`], runs the step, prints its [`document::Document`] and ends with the
//! [`status::Status`] that the outcome carries.

pub mod action;
pub mod call;
pub mod child;
pub mod clean;
pub mod common;
pub mod deadline;
pub mod document;
pub mod effects;
pub mod failure;
pub mod file;
pub mod from;
pub mod journal;
pub mod lock;
pub mod pages;
pub mod poll;
pub mod progress;
pub mod redact;
pub mod reporter;
pub mod restic;
pub mod retention;
pub mod run_id;
pub mod schema;
pub mod secret;
pub mod settings;
pub mod signals;
pub mod status;
pub mod steps;
pub mod swaps;
pub mod table;
pub mod tool;
pub mod user;
pub mod watch;
pub mod work;

pub use action::Action;
pub use call::Call;
pub use common::DryRun;
pub use failure::{Failure, StepResult, Stopped};
pub use from::{Accept, FromArg, OtherServer, Received};
pub use lock::Lock;
pub use progress::Unit;
pub use run_id::RunId;
pub use secret::Secret;
pub use status::Status;
pub use swaps::GivenArgs;
pub use user::OsUser;
