//! What earlier calls left of a staging. Of the same run it is taken as it is, or cleared away; of another one that was killed it is
//! cleared away.

use svc_step::action::Action;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, swaps};

use super::stage::{self, Bring, plan};
use crate::capacity;
use crate::client::Server;
use crate::client::path::path;
use crate::guard;
use crate::index::{copies, look};
use crate::restore::chosen::Chosen;
use crate::restore::record::staged::{Staged, StagedIndex};
use crate::restore::record::{self, Begun};
use crate::restore::streams::StreamBack;
use crate::throttle::Rates;

/// What an earlier call of this run left of the same staging.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// All of it, proven and there.
    pub proven: Option<Staged>,
    /// What it had not proven: copies, and what it restored under live names and never opened. They are removed, and it begins anew.
    pub leftovers: Vec<String>,
    /// What else there is under names that it was to restore directly: perhaps its own work, perhaps a client's.
    direct: Vec<String>,
    /// Other runs whose staging was killed, and the copies that each has left.
    killed: Vec<(RunId, Vec<String>)>,
}

impl Earlier {
    /// Looks at what is noted of this run.
    ///
    /// # Errors
    /// It is a swap, or a staging of something else (3).
    pub(crate) fn find(call: &Call, chosen: &Chosen, dry_run: bool) -> Result<Self, Failure> {
        // A dry run does not hold the lock: where somebody else does, what is not proven may be his work.
        let is_at_work = dry_run && guard::is_locked(call, &chosen.server);
        let killed = if is_at_work { Vec::new() } else { killed(call, &chosen.server)? };
        let staged = match record::noted(call, call.run_id())? {
            None => return Ok(Self { killed, ..Self::default() }),
            Some(Begun::Staged(staged)) => staged,
            Some(Begun::Cloned(_) | Begun::Swapped(_)) => return Err(record::in_use(call.run_id())),
        };
        let found = look(&chosen.server, &staged.names())?;
        let is_there = |one: &StagedIndex| found.get(&one.staged).is_some_and(|index| Some(&index.uuid) == one.uuid.as_ref());
        let whole = staged.is_proven() && staged.indices.iter().all(is_there);
        let same = staged.origin.snapshot_uuid == chosen.origin.snapshot_uuid
            && staged.origin.cluster_uuid == chosen.origin.cluster_uuid
            && (!whole || staged.indices.iter().map(|one| &one.index).eq(&chosen.indices))
            && (!whole || staged.streams.iter().map(|one| &one.back.stream).eq(&chosen.streams));
        if !same {
            return Err(record::in_use(call.run_id()));
        }
        if whole {
            return Ok(Self { proven: Some(staged), ..Self::default() });
        }
        let is_unopened = |name: &String| staged.indices.iter().any(|one| one.staged == *name && one.is_unopened(&found));
        let own = |name: &&String| copies::is_own_of(name, call.run_id()) || is_unopened(name);
        let leftovers: Vec<String> = found.keys().filter(own).cloned().collect();
        let direct = staged.indices.iter().filter(|one| one.is_direct() && found.contains_key(&one.index));
        let direct = direct.map(|one| one.index.clone()).filter(|index| !leftovers.contains(index)).collect();
        Ok(Self { proven: None, direct, leftovers, killed })
    }

    /// Waits for what a killed call had asked the server to restore directly: it is live then, and treated so.
    ///
    /// # Errors
    /// A signal, or the time limit.
    pub(crate) fn settle(&self, call: &Call, server: &Server) -> Result<(), Failure> {
        stage::wait_for(call, server, &self.direct.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The plan of a staging that begins anew.
    ///
    /// # Errors
    /// Names are in use, or there is no room (3).
    pub(crate) fn planned(
        &self,
        call: &Call,
        chosen: &Chosen,
        brings: &[Bring],
        streams: Vec<StreamBack>,
        rates: &Rates<'_>,
    ) -> Result<Staged, Failure> {
        let mut staged = plan(call, chosen, brings, streams);
        let all = staged.with_proofs(brings);
        let names: Vec<&str> = all.iter().filter(|one| one.target != one.index).map(|one| one.target.as_str()).collect();
        let in_use = look(&chosen.server, &names)?;
        let in_use: Vec<&str> = in_use.keys().filter(|name| !self.leftovers.contains(name)).map(String::as_str).collect();
        guard::refuse_in_use("the staging", &in_use)?;
        staged.room = Some(capacity::refuse_without(call, chosen, &all, &self.copies())?);
        staged.throttle = rates.used();
        staged.plan = rates.around(staged.plan);
        let removals = self.copies().into_iter().map(|name| Action::request("DELETE", path(&[name]), None));
        staged.plan.splice(0..0, removals);
        Ok(staged)
    }

    /// The copies that go.
    fn copies(&self) -> Vec<&str> {
        self.leftovers.iter().chain(self.killed.iter().flat_map(|(_, copies)| copies)).map(String::as_str).collect()
    }

    /// Removes what is left of it.
    ///
    /// # Errors
    /// The server refuses or does not answer.
    pub(crate) fn clear(&self, call: &Call, server: &Server, rates: &Rates<'_>) -> Result<(), Failure> {
        call.check()?;
        stage::remove(call, server, &self.copies())?;
        for (run, copies) in &self.killed {
            swaps::remove(call, run)?;
            if !copies.is_empty() {
                call.warn(
                    "staging_removed",
                    format!("The run {run} was killed while it staged; its copies were removed: {}.", copies.join(", ")),
                );
            }
        }
        rates.clear(call, server);
        // A staging that is taken back leaves nothing; but what was left of an earlier one is gone all the same.
        call.effects().stays();
        Ok(())
    }
}

/// The stagings of other runs that this host knows of and that are not proven. Whoever stages holds the lock of the cluster's indices
/// until the end, and so does the caller: nobody is at work on them. One that may have restored an index direct under a live name is
/// not among them: only its own run can tell what that is.
fn killed(call: &Call, server: &Server) -> Result<Vec<(RunId, Vec<String>)>, Failure> {
    let mut killed = Vec::new();
    for received in swaps::all(call, &[record::STAGE]) {
        let Ok(staged) = received.result::<Staged>() else { continue };
        let Ok(run) = record::named(&staged.run) else { continue };
        let is_other = run != *call.run_id() && staged.origin.cluster_uuid == server.cluster_uuid;
        if !is_other || staged.is_proven() || staged.indices.iter().any(StagedIndex::is_direct) {
            continue;
        }
        let found = look(server, &staged.names())?;
        let copies = found.into_keys().filter(|name| copies::is_own_of(name, &run)).collect();
        killed.push((run, copies));
    }
    Ok(killed)
}
