//! Admitting a newcomer that shows an invitation of this node.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use control_protocol::peer::{JoinAnswer, JoinRequest, Member};
use identity::NodeName;

use crate::Error;
use crate::daemon::Daemon;
use crate::members::Taken;

/// Checks everything before the invitation is used up: who asks for a name that is taken may ask
/// again.
pub(crate) fn admit(daemon: &Arc<Daemon>, request: &JoinRequest) -> Result<JoinAnswer, Error> {
    let (identity, now) = (&daemon.identity, SystemTime::now());
    let invitations = identity.invitations()?;
    let grant = invitations.check(&request.id, &request.secret, now)?;
    let name = NodeName::new(request.name.as_str())?;
    let membership = identity.certify(&name, &request.public_key, grant)?;
    let newcomer = Member {
        name: name.to_string(),
        id: membership.about.id.0,
        // Told when its daemon enters; until then nobody talks to it.
        address: ([0, 0, 0, 0], 0).into(),
        generation: 0,
    };
    {
        let mut table = daemon.table();
        let taken =
            if name == *identity.node() { Err(Taken::Alive) } else { table.claim(name.as_str(), Instant::now()) };
        taken.map_err(|taken| identity::Error::Name {
            name: name.to_string(),
            rule: match taken {
                Taken::Alive => "a living node of this cluster has it",
                Taken::Admitted => "it was given to a node that has not come yet",
            },
        })?;
        invitations.redeem(&request.id, &request.secret, now)?;
        table.remember(newcomer, true, Instant::now());
    }
    let membership =
        postcard::to_allocvec(&membership).map_err(|_| identity::Error::Malformed { what: "membership" })?;
    Ok(JoinAnswer::Admitted { membership, members: daemon.everybody() })
}
