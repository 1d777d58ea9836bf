//! Other users of this host: looked up by name, and taken on for the length of one call.

use nix::unistd::{Gid, Uid, User, getegid, geteuid, setegid, seteuid};

use crate::failure::Failure;

/// A user of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsUser {
    /// The login name.
    pub name: String,
    /// The user's number.
    pub uid: Uid,
    /// The number of the user's own group.
    pub gid: Gid,
    /// The user's home directory.
    pub home: std::path::PathBuf,
}

impl OsUser {
    /// Looks a user up.
    ///
    /// # Errors
    /// There is none of that name (2).
    pub fn named(name: &str) -> Result<Self, Failure> {
        match User::from_name(name) {
            Ok(Some(user)) => Ok(Self { name: user.name, uid: user.uid, gid: user.gid, home: user.dir }),
            _ => Err(Failure::usage("settings_invalid", format!("This host has no user {name}."))
                .hint("Name the right user; getent passwd lists them.")),
        }
    }

    /// The user whose rights this process has.
    pub fn current() -> Option<Self> {
        let user = User::from_uid(geteuid()).ok().flatten()?;
        Some(Self { name: user.name, uid: user.uid, gid: user.gid, home: user.dir })
    }

    /// Whether this process has that user's rights already.
    pub fn is_current(&self) -> bool {
        self.uid == geteuid()
    }

    /// Does `work` with this user's effective rights, as a server sees them that asks the kernel who connects, and takes
    /// root's back afterwards. Files that the caller opened before stay open.
    ///
    /// # Errors
    /// This process may not become that user (3), or what `work` gives.
    pub fn act_as<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        if self.is_current() {
            return work();
        }
        if !geteuid().is_root() {
            return Err(Failure::refused("permission_denied", format!("Only root can act as the user {}.", self.name))
                .hint(format!("Run the command with sudo, or as {} itself.", self.name)));
        }
        let _back = Back { uid: geteuid(), gid: getegid() };
        setegid(self.gid).and_then(|()| seteuid(self.uid)).map_err(|error| {
            Failure::refused("permission_denied", format!("Cannot act as the user {}.", self.name)).cause(error.to_string())
        })?;
        work()
    }
}

/// Takes the rights back, also when the work failed.
struct Back {
    uid: Uid,
    gid: Gid,
}

impl Drop for Back {
    fn drop(&mut self) {
        let _ = seteuid(self.uid);
        let _ = setegid(self.gid);
    }
}
