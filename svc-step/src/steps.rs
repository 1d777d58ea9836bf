//! The steps of the shipped scripts that `svc-run` and `svc-point` know by name: what a run has done is told by them. A script that
//! renames one of them renames it here; a test holds [`ALL`] against the scripts.

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
        /// All of them.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

steps! {
    /// An external command: the point of no return.
    INSTALLER = "installer";
    /// An external command of a rollback.
    UNINSTALL = "uninstall";
    /// The stop of the service.
    STOP = "stop";
    /// Its start.
    START = "start";
    /// Its start by the undo of a run that failed.
    START_AGAIN = "start-again";
    /// The installed version, read.
    PRESENT = "present";
    /// The installer that an upgrade was given, checked.
    NEW = "new";
    /// The path of an upgrade over several versions.
    PLAN = "plan";
    /// The version marker, cleared by a rollback.
    CLEAR = "clear";
    /// The swap in the cluster.
    SWAP_SEARCH = "swap-search";
    /// The swap in PostgreSQL.
    SWAP_DATABASE = "swap-database";
    /// The staging in the cluster.
    STAGE_SEARCH = "stage-search";
    /// The staging in PostgreSQL.
    STAGE_DATABASE = "stage-database";
    /// The restore point, made or chosen.
    POINT = "point";
    /// The backup of a night.
    BACKUP = "backup";
    /// The dump of a restore point.
    DUMP = "dump";
    /// Its snapshot.
    SNAPSHOT = "snapshot";
    /// The verification of that.
    VERIFY_SNAPSHOT = "verify-snapshot";
    /// The state of the unit when both were taken.
    UNIT_AFTER = "unit-after";
    /// The rollback that an upgrade begins by itself.
    ROLLBACK = "rollback";
    /// The first of its hops; see [`is_hop`].
    FIRST_HOP = "hop-1";
    /// The restart of PostgreSQL in a rollback.
    RESTART_DATABASE = "restart-database";
    /// The installer of the version before, found by an upgrade.
    PREVIOUS_INSTALLER = "previous-installer";
    /// The removal of a restore point that was not finalized, by the undo of a run that failed.
    REMOVE_POINT = "remove-incomplete-point";
}

/// Whether a step is a hop of an upgrade: the others have the name of the first one with another number.
pub fn is_hop(step: &str) -> bool {
    step.starts_with(FIRST_HOP.trim_end_matches('1'))
}
