//! Making a fresh database and filling it: the same for a copy and for the database itself.

use svc_pgdump::admin::{oid_of, session_pid};
use svc_pgdump::whole::{INTERNAL_OPTION, major};
use svc_step::progress::Unit;
use svc_step::{Call, Failure};

use crate::connections;
use crate::loader::{self, Load};
use crate::outcome::Source;
use crate::prepare::Prepared;
use crate::{proof, trial};

/// Creates, loads, proves, and gives the properties; `staged` says how far it came.
///
/// # Errors
/// The server says no, the load fails, or the proof does; a signal or the end of the time limit.
pub(crate) fn fill(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    let Prepared { admin, input, creation, expected, chosen, plan, staged, sets_internal_option, .. } = prepared;
    call.check()?;
    admin.alter(call, &creation.create().sql, &format!("create the database {}", creation.name))?;
    staged.staged.oid = oid_of(&mut admin.client, &creation.name)?;
    admin.alter(call, &creation.grant().sql, "grant the owner's rights")?;
    trial::accepts(admin, call, creation, staged.properties_from, input)?;
    call.check()?;
    let load = Load {
        server: admin.server.version_num,
        database: &creation.name,
        dump: &input.dump,
        size_bytes: staged.dump.text_size_bytes,
    };
    loader::load(call, admin, &load, chosen, plan)
        .map_err(|failure| of_other_client(failure, &staged.dump, *sets_internal_option, load.server))?;
    input.dump.unaltered()?;
    let progress = call.progress("prove", Unit::Items("tables"));
    let connect = || admin.target.connect(call, &creation.name);
    let (first, mut clients) = connections::up_to(chosen.jobs.min(expected.rows.len()), connect)?;
    clients.push(first);
    let own = clients.iter_mut().map(session_pid).collect::<Result<Vec<_>, _>>()?;
    admin.close(call, creation, &staged.staged, &own)?;
    let proof = admin.interruptible(call, &mut clients, |clients| proof::prove(clients, expected, &progress))?;
    drop(clients);
    for statement in creation.after_load() {
        admin.alter(call, &statement.sql, "give the database its recorded properties")?;
    }
    call.check()?;
    staged.proof = Some(proof);
    staged.proven = true;
    Ok(())
}

/// What a pg_dump writes that does not fit its server, or is newer than this one, may be what only another server understands.
fn of_other_client(failure: Failure, dump: &Source, sets_internal_option: bool, server: u32) -> Failure {
    let server = server / 10_000;
    if failure.code == "load_failed" && sets_internal_option {
        return failure.hint(format!(
            "Look at that line and at the causes. The dump sets {INTERNAL_OPTION}, which its server ({}) keeps for itself and another one may refuse: dump it with the server's own pg_dump, which leaves that out, or restore on a server of that version.",
            dump.server_version
        ));
    }
    if failure.code != "load_failed" || major(&dump.pg_dump_version).is_none_or(|client| client <= server) {
        return failure;
    }
    failure.hint(format!(
        "Look at that line and at the causes. The dump is by pg_dump {}, and may say what only a server of that version understands: dump with one of version {server}, or restore on a newer server.",
        dump.pg_dump_version
    ))
}
