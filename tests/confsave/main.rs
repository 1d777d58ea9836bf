//! svc-confsave as an operator uses it: both layouts saved, compared and carried over, and what it refuses.

mod attacks;
mod carry;
mod diff;
mod layouts;
mod limits;
mod merge;
mod page;
mod restore;
mod save;
mod secrets;
mod site;
