//! Run ids of tests.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// The `n`th run of a test that tells several apart.
pub fn run_id(n: usize) -> String {
    format!("20261120t02{n:04}z-test")
}

/// The run id of a call by hand that makes copies, and never one of before: a person does not make two in one second, a test does.
pub fn by_hand() -> String {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let now = Timestamp::now().as_second();
    let next = |last: i64| now.max(last + 1);
    let last = LAST.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(next(last))).unwrap();
    Timestamp::from_second(next(last)).unwrap().strftime("%Y%m%dt%H%M%Sz-hand").to_string()
}
