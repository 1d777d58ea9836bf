//! No systemctl, no manager, no rights, and the journal.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use svc_tests::os;
use svc_tests::tool::Tool;

use crate::own::{after, manager, tool};

/// The refusal that a system manager gives a user without rights cannot be had from a user manager: this stands in for systemctl.
/// It shows a unit as the real one does, and fails as that of systemd 252 with polkit; its text is for people and decides nothing.
const WITHOUT_RIGHTS: &str = r#"#!/bin/sh
case "$*" in
*show*) printf 'LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nMainPID=7\nInvocationID=a\n' ;;
*) echo 'Echec : il faut une authentification.' >&2; exit 1 ;;
esac
"#;

#[test]
fn without_systemctl_or_without_a_manager_it_is_unavailable() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    for step in ["status", "stop", "start", "restart", "wait"] {
        Tool::new("svc-unit").arg(step).env("PATH", path).run().fails(5, "manager_unreachable").unchanged();
        let nobody = Tool::new("svc-unit").args([step, "--user"]).env("XDG_RUNTIME_DIR", path);
        nobody.run().fails(5, "manager_unreachable").unchanged();
    }
}

#[test]
fn the_manager_of_another_user_is_refused() {
    let systemd = manager();
    let user = os::system_user("svc-unit-test").unwrap();
    for step in ["status", "stop"] {
        let ran = tool(&systemd, step).args(["--user", "svc"]).as_user(&user.name).run().refused("permission_denied");
        assert!(ran.text().contains("Run the same command as the user who owns that manager."), "{ran}");
    }
}

#[test]
fn a_user_without_rights_is_told_to_use_sudo() {
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("systemctl");
    os::write_program(&fake, WITHOUT_RIGHTS).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let user = os::system_user("svc-unit-test").unwrap();
    for step in ["stop", "restart"] {
        let tool = Tool::new("svc-unit").arg(step).env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
        let ran = tool.as_user(&user.name).run().refused("permission_denied").unchanged();
        assert_eq!(ran.doc()["error"]["hint"], "Run the same command with sudo.");
        assert_eq!(after(&ran, "active_state"), "active");
    }
}

/// Shows one unit, which another one requires, and knows nothing of that other one.
const SILENT: &str = r#"#!/bin/sh
case "$*" in
*RequiredBy*) printf 'ActiveState=active\nRequiredBy=one.service two.service\n' ;;
*) printf 'LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nMainPID=7\nInvocationID=a\n' ;;
esac
"#;

#[test]
fn a_manager_that_falls_silent_on_dependents_ends_the_stop_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("systemctl");
    os::write_program(&fake, SILENT).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    Tool::new("svc-unit").arg("stop").env("PATH", path).run().fails(5, "manager_unreachable").unchanged();
}

/// The same stand-in with a journal beside it, as only a system manager has one.
#[test]
fn a_failed_start_carries_the_last_lines_of_the_journal_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        os::write_program(&path, text).unwrap();
    };
    script(
        "systemctl",
        "#!/bin/sh\nprintf 'LoadState=loaded\\nActiveState=failed\\nResult=exit-code\\nExecMainCode=1\\nExecMainStatus=1\\n'\n",
    );
    let url = "postgres://svc:hunter2@db1/svc_db";
    script("journalctl", &format!("#!/bin/sh\necho 'svc[7]: no route to {url}'\necho 'password=hunter2'\necho \"$*\"\n"));
    let tool = Tool::new("svc-unit").args(["start", "svc"]).env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
    let ran = tool.run().fails(1, "unit_failed");
    let journal = ran.result()["journal"].as_array().unwrap();
    assert!(journal[0].as_str().unwrap().contains("--unit svc.service"), "{ran}");
    assert_eq!((journal.len(), journal[2].as_str()), (3, Some("svc[7]: no route to postgres://<redacted>@db1/svc_db")));
    assert!(!ran.text().contains("hunter2"), "{ran}");
}
