//! No systemctl, no manager, no rights, and the journal.

use crate::own::*;

/// A call with programs that stand in for those of a system manager, which is not to be had here: each with the text of its script.
fn with_fakes(step: &str, programs: &[(&str, &str)]) -> (TempDir, Tool) {
    let folder = tempfile::tempdir().unwrap();
    os::chmod(folder.path(), 0o755);
    let stub = |tool: Tool, (name, script): &(&str, &str)| tool.stub(folder.path(), name, &format!("{script}\nexit"));
    let tool = programs.iter().fold(Tool::new("svc-unit").arg(step), stub);
    (folder, tool)
}

/// What systemctl shows of a unit that is active.
const SHOWS: &str =
    "printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nResult=success\\nMainPID=7\\nInvocationID=a\\n'";

#[test]
fn without_systemctl_or_without_a_manager_it_is_unavailable() {
    let empty = tempfile::tempdir().unwrap();
    for step in ["status", "stop", "start", "restart", "wait"] {
        for (option, variable) in [(None, "PATH"), (Some("--user"), "XDG_RUNTIME_DIR")] {
            let call = Tool::new("svc-unit").arg(step).args(option).env(variable, empty.path());
            call.run().fails(5, "manager_unreachable").unchanged();
        }
    }
}

#[test]
fn user_manager_of_another_user_is_refused() {
    let systemd = manager();
    let user = os::system_user("svc-unit-test").unwrap();
    for step in ["status", "stop"] {
        let ran = tool(&systemd, step).args(["--user", "svc"]).as_user(&user.name).run().refused("permission_denied");
        assert!(ran.text().contains("Run the same command as the user who owns that manager."), "{ran}");
    }
}

/// The refusal is that of systemd 252 with polkit; its text is for people and decides nothing.
#[test]
fn user_without_rights_is_told_to_use_sudo() {
    let user = os::system_user("svc-unit-test").unwrap();
    let inactive = SHOWS.replace("ActiveState=active", "ActiveState=inactive").replace("SubState=running", "SubState=dead");
    for (step, shows, state) in [("stop", SHOWS, "active"), ("restart", SHOWS, "active"), ("start", &*inactive, "inactive")] {
        let refuses =
            format!("case \"$*\" in *show*) {shows} ;; *) echo 'Echec : il faut une authentification.' >&2; exit 1 ;; esac");
        let (_folder, tool) = with_fakes(step, &[("systemctl", &refuses)]);
        let ran = tool.as_user(&user.name).run().refused("permission_denied").unchanged();
        assert_eq!(ran.hint(), "Run the same command with sudo.", "{step}");
        assert_eq!(after(&ran, "active_state"), state, "{step}");
    }
}

#[test]
fn silent_manager_fails_stop_before_it_begins() {
    let required = "printf 'ActiveState=active\\nRequiredBy=one.service two.service\\n'";
    let says = format!("case \"$*\" in *RequiredBy*) {required} ;; *) {SHOWS} ;; esac");
    let (_folder, tool) = with_fakes("stop", &[("systemctl", &says)]);
    tool.run().fails(5, "manager_unreachable").unchanged();
}

#[test]
fn failed_start_has_journal_without_secrets() {
    let shows = "printf 'LoadState=loaded\\nActiveState=failed\\nResult=exit-code\\nExecMainCode=1\\nExecMainStatus=1\\n'";
    let journal = "echo 'svc[7]: no route to postgres://svc:hunter2@db1/svc_db'; echo 'password=hunter2'; echo \"$*\"";
    let (_folder, tool) = with_fakes("start", &[("systemctl", shows), ("journalctl", journal)]);
    let ran = tool.arg("svc").run().fails(1, "unit_failed").without(&["hunter2"]);
    let journal = ran.lines("journal");
    assert!(journal[0].contains("--unit svc.service"), "{ran}");
    assert_eq!((journal.len(), journal[2]), (3, "svc[7]: no route to postgres://<redacted>@db1/svc_db"));
}
