//! The steps of the shipped scripts that `svc-run` and `svc-point` know by name: what a run has done is told by them. A script that
//! renames one of them renames it here; a test holds [`ALL`] against the scripts.

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $(
            #[doc = concat!("The step `", $text, "`.")]
            $(#[$doc])*
            pub const $name: &str = $text;
        )*
        /// All of them.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

steps! {
    /// An external command: the point of no return.
    INSTALLER = "installer";
    UNINSTALL = "uninstall";
    STOP = "stop";
    START = "start";
    /// By the undo of a run that failed.
    START_AGAIN = "start-again";
    /// The installed version, read.
    PRESENT = "present";
    /// The installer that an upgrade was given, checked.
    NEW = "new";
    /// The path of an upgrade over several versions.
    PLAN = "plan";
    /// The version marker, cleared by a rollback.
    CLEAR = "clear";
    SWAP_SEARCH = "swap-search";
    SWAP_DATABASE = "swap-database";
    STAGE_SEARCH = "stage-search";
    STAGE_DATABASE = "stage-database";
    /// The restore point, made or chosen.
    POINT = "point";
    /// The backup of a night.
    BACKUP = "backup";
    DUMP = "dump";
    SNAPSHOT = "snapshot";
    VERIFY_SNAPSHOT = "verify-snapshot";
    /// The state of the unit when both were taken.
    UNIT_AFTER = "unit-after";
    /// The rollback that an upgrade begins by itself.
    ROLLBACK = "rollback";
    /// See [`is_hop`].
    FIRST_HOP = "hop-1";
    /// The installer of the version before, found by an upgrade.
    PREVIOUS_INSTALLER = "previous-installer";
    /// The removal of a restore point that was not finalized, by the undo of a run that failed.
    REMOVE_POINT = "remove-incomplete-point";
}

/// Whether a step is a hop of an upgrade: the others have the name of the first one with another number.
pub fn is_hop(step: &str) -> bool {
    step.starts_with(FIRST_HOP.trim_end_matches('1'))
}
