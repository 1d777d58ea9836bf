//! svc-unit on a real manager of systemd: units of every temper, started, stopped, waited for, and checked.

mod call;
mod cut;
mod dependents;
mod kinds;
mod managers;
mod own;
mod page;
mod ready;
mod start;
mod stop;
