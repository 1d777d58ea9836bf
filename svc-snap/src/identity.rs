//! Which cluster a document speaks of, so that it is never used against another one.

use clap::Args;
use svc_step::Failure;

use crate::server::Server;

/// For steps that go on from another's document.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OtherServer {
    /// Go on although the --from document is of another cluster
    #[arg(long, requires = "from")]
    pub other_server: bool,
}

impl OtherServer {
    /// Refuses a document that speaks of another cluster.
    ///
    /// # Errors
    /// It does, and `--other-server` was not said (3).
    pub(crate) fn check(self, server: &Server, cluster_uuid: &str) -> Result<(), Failure> {
        if self.other_server || server.cluster_uuid == cluster_uuid {
            return Ok(());
        }
        Err(Failure::refused(
            "other_server",
            format!(
                "The --from document is of the cluster {cluster_uuid}, and {} is the cluster {}.",
                server.url(),
                server.cluster_uuid
            ),
        )
        .hint("Check --url (SVC_SEARCH_URL); say --other-server where another cluster is meant (a rebuilt one, for example)."))
    }
}
