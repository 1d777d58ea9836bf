//! The steps of the shipped scripts that `svc-run` and `svc-point` know by name: what a run has done is told by them. A script that
//! renames one of them renames it here; a test holds [`ALL`] against the scripts.

/// An external command: the point of no return.
pub const INSTALLER: &str = "installer";
/// An external command of a rollback.
pub const UNINSTALL: &str = "uninstall";
/// The stop of the service.
pub const STOP: &str = "stop";
/// Its start.
pub const START: &str = "start";
/// Its start by the undo of a run that failed.
pub const START_AGAIN: &str = "start-again";
/// The installed version, read.
pub const PRESENT: &str = "present";
/// The installer that an upgrade was given, checked.
pub const NEW: &str = "new";
/// The path of an upgrade over several versions.
pub const PLAN: &str = "plan";
/// The version marker, cleared by a rollback.
pub const CLEAR: &str = "clear";
/// The swap in the cluster.
pub const SWAP_SEARCH: &str = "swap-search";
/// The swap in PostgreSQL.
pub const SWAP_DATABASE: &str = "swap-database";
/// The staging in the cluster.
pub const STAGE_SEARCH: &str = "stage-search";
/// The staging in PostgreSQL.
pub const STAGE_DATABASE: &str = "stage-database";
/// The restore point, made or chosen.
pub const POINT: &str = "point";
/// The dump of a restore point.
pub const DUMP: &str = "dump";
/// Its snapshot.
pub const SNAPSHOT: &str = "snapshot";
/// The verification of that.
pub const VERIFY_SNAPSHOT: &str = "verify-snapshot";
/// The state of the unit when both were taken.
pub const UNIT_AFTER: &str = "unit-after";
/// The rollback that an upgrade begins by itself.
pub const ROLLBACK: &str = "rollback";
/// The first of its hops; the others have the same name with another number.
pub const FIRST_HOP: &str = "hop-1";
/// The restart of PostgreSQL in a rollback.
pub const RESTART_DATABASE: &str = "restart-database";
/// The installer of the version before, found by an upgrade.
pub const PREVIOUS_INSTALLER: &str = "previous-installer";

/// The removal of a restore point that was not finalized, by the undo of a run that failed.
pub const REMOVE_POINT: &str = "remove-incomplete-point";

/// All of them.
pub const ALL: [&str; 23] = [
    INSTALLER,
    UNINSTALL,
    STOP,
    START,
    START_AGAIN,
    PRESENT,
    NEW,
    PLAN,
    CLEAR,
    SWAP_SEARCH,
    SWAP_DATABASE,
    STAGE_SEARCH,
    STAGE_DATABASE,
    POINT,
    DUMP,
    SNAPSHOT,
    VERIFY_SNAPSHOT,
    UNIT_AFTER,
    ROLLBACK,
    FIRST_HOP,
    RESTART_DATABASE,
    PREVIOUS_INSTALLER,
    REMOVE_POINT,
];
