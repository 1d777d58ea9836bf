//! What would installing a version be? It follows from the marker and from what both databases hold.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use semver::Version;

use crate::releases::{self, Refusal, Shape};
use crate::search::Search;
use crate::settings::Settings;
use crate::{documents, rows};

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
    Upgrade { from: Version, rows: Shape, documents: Shape },
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

/// One database's part of the content.
#[derive(Clone, Copy, Debug)]
struct Half {
    recorded: Option<Shape>,
    empty: bool,
    /// Everything of the new version's shape is there, and nothing of another's.
    exact: bool,
}

/// Changes nothing; refuses when the version path is not supported or the content does not fit.
pub fn plan(settings: &Settings, install_dir: &Path, to: &Version) -> anyhow::Result<Plan> {
    let own = releases::shape_of(to)?;
    let marker = releases::installed(install_dir)?;
    if let Some(from) = marker.as_ref().filter(|from| *from != to && !releases::may_follow(from, to)) {
        return Err(Refusal::because(format!("The upgrade from {from} to {to} is not supported.")));
    }
    let mut client = rows::connect(settings)?;
    let (relations, recorded) = (rows::relations(&mut client)?, rows::recorded_shape(&mut client)?);
    let exact = recorded == Some(own) && relations == rows::shape(own)?.relations;
    let relational = Half { recorded, empty: relations.is_empty(), exact };
    let search = Search::new(settings);
    let (present, recorded) = (documents::present(&search, &settings.name)?, documents::recorded_shape(&search, &settings.name)?);
    let exact = recorded == Some(own) && present == documents::expected(&settings.name, own);
    decide(marker, to, own, relational, Half { recorded, empty: present.is_empty() && recorded.is_none(), exact })
}

fn decide(marker: Option<Version>, to: &Version, own: Shape, rows: Half, documents: Half) -> anyhow::Result<Plan> {
    let complete = rows.exact && documents.exact;
    match marker {
        None if rows.empty && documents.empty => return Ok(Plan::Fresh),
        None if complete => return Ok(Plan::Adopt),
        Some(from) if from == *to && complete => return Ok(Plan::Again),
        Some(from) if from != *to => {
            let before = releases::shape_of(&from)?;
            if let (Some(rows), Some(documents)) = (rows.recorded, documents.recorded)
                && [rows, documents].iter().all(|half| [before, own].contains(half))
            {
                return Ok(Plan::Upgrade { from, rows, documents });
            }
        }
        _ => {}
    }
    let described = |half: Half| match half.recorded {
        Some(shape) => format!("shape {shape}{}", if half.exact { "" } else { " (not as this version has it)" }),
        None if half.empty => "nothing".to_owned(),
        None => "content without a record of its shape".to_owned(),
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

    const NOTHING: Half = Half { recorded: None, empty: true, exact: false };

    fn half(shape: Shape, exact: bool) -> Half {
        Half { recorded: Some(shape), empty: false, exact }
    }

    #[test]
    fn the_marker_and_both_halves_decide() {
        for (marker, to, rows, documents, wanted) in [
            (None, "1.15.5", NOTHING, NOTHING, Some("fresh")),
            (None, "1.15.5", half(2, true), half(2, true), Some("adopt")),
            (None, "1.15.5", half(3, false), half(3, false), None),
            (None, "1.15.5", half(2, true), NOTHING, None),
            (None, "1.15.5", half(2, true), half(2, false), None),
            (Some("1.15.5"), "2.0.1", half(2, false), half(2, false), Some("upgrade 1.15.5")),
            (Some("1.15.5"), "2.0.1", half(3, true), half(2, false), Some("upgrade 1.15.5")),
            (Some("1.15.5"), "2.0.1", half(1, false), half(2, false), None),
        ] {
            let to = Version::parse(to).unwrap();
            let own = releases::shape_of(&to).unwrap();
            let marker = marker.map(|text| Version::parse(text).unwrap());
            let found = decide(marker, &to, own, rows, documents).ok().map(|plan| plan.to_string());
            assert_eq!(found.as_deref(), wanted, "{to} {rows:?} {documents:?}");
        }
    }
}
