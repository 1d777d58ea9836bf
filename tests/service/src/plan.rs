//! What would installing a version be? It follows from the marker and from what both databases hold.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use anyhow::Result;
use semver::Version;

use crate::documents::{Documents, Indices};
use crate::releases::{self, Refusal};
use crate::rows;
use crate::settings::Settings;
use crate::shapes::Shape;

/// What an installation does to the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing is there: both databases get their first content.
    Fresh,
    /// There is no marker, and both databases hold this version's shape, as after a rollback: nothing is changed.
    Adopt,
    /// This very version is installed: nothing is changed.
    Again,
    /// A supported move; a half that an earlier, broken try has already moved is at the new shape.
    Upgrade { from: Version, rows: u32, documents: u32 },
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh => f.write_str("fresh"),
            Self::Adopt => f.write_str("adopt"),
            Self::Again => f.write_str("again"),
            Self::Upgrade { from, .. } => write!(f, "upgrade {from}"),
        }
    }
}

/// One database's part of the content: the shape that it records, if any, and whether all that is there is of the new version's
/// shape, or nothing is there where none is recorded.
type Half = (Option<u32>, bool);

/// Changes nothing; refuses when the version path is not supported or the content does not fit.
pub fn plan(settings: &Settings, install_dir: &Path, to: &Version) -> Result<Plan> {
    let own = releases::shape_of(to)?;
    let marker = releases::installed(install_dir)?;
    if let Some(from) = marker.as_ref().filter(|from| *from != to && !releases::may_follow(from, to)) {
        return Err(Refusal::because(format!("The upgrade from {from} to {to} is not supported.")));
    }
    let mut client = settings.connect()?;
    let recorded = rows::recorded_shape(&mut client)?;
    let expected = if recorded.is_some() { Shape::of(own)?.relations() } else { Vec::new() };
    let relational = (recorded, rows::relations(&mut client)? == expected);
    let search = Documents(settings);
    let recorded = search.recorded_shape()?;
    let expected = if recorded.is_some() { search.expected(own)? } else { Indices::new() };
    decide(marker, to, own, relational, (recorded, search.present()? == expected))
}

fn decide(marker: Option<Version>, to: &Version, own: u32, rows: Half, documents: Half) -> Result<Plan> {
    let both = |half: Half| rows == half && documents == half;
    match (marker, rows.0, documents.0) {
        (None, ..) if both((None, true)) => return Ok(Plan::Fresh),
        (None, ..) if both((Some(own), true)) => return Ok(Plan::Adopt),
        (Some(from), ..) if from == *to && both((Some(own), true)) => return Ok(Plan::Again),
        (Some(from), Some(rows), Some(documents)) if from != *to => {
            let known = [releases::shape_of(&from)?, own];
            if known.contains(&rows) && known.contains(&documents) {
                return Ok(Plan::Upgrade { from, rows, documents });
            }
        }
        _ => {}
    }
    let described = |half: Half| match half {
        (Some(shape), exact) => format!("shape {shape}{}", if exact { "" } else { " (not as this version has it)" }),
        (None, true) => "nothing".to_owned(),
        (None, false) => "content without a record of its shape".to_owned(),
    };
    let (rows, documents) = (described(rows), described(documents));
    Err(Refusal::because(format!(
        "The databases do not hold the content from which version {to} can be installed: PostgreSQL holds {rows}, the \
         search database {documents}."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_and_both_databases_decide_install_plan() {
        for (marker, to, rows, documents, wanted) in [
            (None, "1.15.5", (None, true), (None, true), Some("fresh")),
            (None, "1.15.5", (Some(2), true), (Some(2), true), Some("adopt")),
            (None, "1.15.5", (Some(3), false), (Some(3), false), None),
            (None, "1.15.5", (Some(2), true), (None, true), None),
            (None, "1.15.5", (Some(2), true), (Some(2), false), None),
            (Some("1.15.5"), "2.0.1", (Some(2), false), (Some(2), false), Some("upgrade 1.15.5")),
            (Some("1.15.5"), "2.0.1", (Some(3), true), (Some(2), false), Some("upgrade 1.15.5")),
            (Some("1.15.5"), "2.0.1", (Some(1), false), (Some(2), false), None),
        ] {
            let to = Version::parse(to).unwrap();
            let marker = marker.map(|text| Version::parse(text).unwrap());
            let found = decide(marker, &to, releases::shape_of(&to).unwrap(), rows, documents).ok().map(|plan| plan.to_string());
            assert_eq!(found.as_deref(), wanted, "{to} {rows:?} {documents:?}");
        }
    }
}
