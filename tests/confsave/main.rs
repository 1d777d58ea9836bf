//! svc-confsave as an operator uses it: both layouts saved, compared and carried over, and what it refuses.

mod attacks;
mod carry;
mod diff;
mod kinds;
mod layouts;
mod limits;
mod page;
mod restore;
mod save;
mod secrets;
mod shapes;
mod site;
