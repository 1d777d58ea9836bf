//! What would installing a version be? Judged from the marker and from what both databases hold.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use semver::Version;

use crate::refusal::Refusal;
use crate::releases::{self, Shape};
use crate::search::Search;
use crate::settings::Settings;
use crate::{documents, rows};

/// What an installation does to the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing is there: both databases get their first content.
    Fresh,
    /// There is no marker, and both databases hold this version's shape, as after a rollback: nothing is altered.
    Adopt,
    /// This very version is installed: nothing is altered.
    Again,
    /// A supported move; a half that an earlier, broken try has already moved is at the new shape.
    Upgrade {
        /// The version that the marker says.
        from: Version,
        /// The shape of the relational half.
        rows: Shape,
        /// The shape of the search half.
        documents: Shape,
    },
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

/// Judges what installing `to` into a folder would be. Changes nothing.
///
/// # Errors
/// A refusal when the version path is not supported or the content does not fit; a database that cannot be read.
pub fn judge(settings: &Settings, install_dir: &Path, to: &Version) -> anyhow::Result<Plan> {
    let own = releases::shape_of(to)?;
    let marker = releases::installed(install_dir)?;
    if let Some(from) = marker.as_ref().filter(|from| *from != to) {
        releases::check_path(from, to)?;
    }
    decide(marker, to, own, relational_half(settings, own)?, search_half(settings, own)?)
}

fn decide(marker: Option<Version>, to: &Version, own: Shape, rows: Half, documents: Half) -> anyhow::Result<Plan> {
    let whole = rows.exact && documents.exact;
    match marker {
        None if rows.empty && documents.empty => Ok(Plan::Fresh),
        None if whole => Ok(Plan::Adopt),
        Some(from) if from == *to && whole => Ok(Plan::Again),
        Some(from) if from != *to => {
            let before = releases::shape_of(&from)?;
            match (rows.recorded, documents.recorded) {
                (Some(rows), Some(documents)) if [rows, documents].iter().all(|half| [before, own].contains(half)) => {
                    Ok(Plan::Upgrade { from, rows, documents })
                }
                _ => Err(mismatch(&format!("content of version {from}, as the marker says"), rows, documents)),
            }
        }
        _ => Err(mismatch(&format!("content of version {to}, whole and in both of them"), rows, documents)),
    }
}

fn mismatch(wanted: &str, rows: Half, documents: Half) -> anyhow::Error {
    let describe = |half: Half| match half.recorded {
        Some(shape) => format!("shape {shape}{}", if half.exact { "" } else { " (not as this version has it)" }),
        None if half.empty => "nothing".to_owned(),
        None => "content without a record of its shape".to_owned(),
    };
    Refusal::because(format!(
        "The databases do not hold {wanted}: the relational database holds {}, the search database {}.",
        describe(rows),
        describe(documents)
    ))
}

fn relational_half(settings: &Settings, own: Shape) -> anyhow::Result<Half> {
    let mut client = rows::connect(settings)?;
    let relations = rows::relations(&mut client)?;
    let recorded = rows::recorded_shape(&mut client)?;
    let exact = recorded == Some(own) && relations == rows::shape(own)?.relations;
    Ok(Half { recorded, empty: relations.is_empty(), exact })
}

fn search_half(settings: &Settings, own: Shape) -> anyhow::Result<Half> {
    let search = Search::new(settings)?;
    let present = documents::present(&search, &settings.name)?;
    let recorded = documents::recorded_shape(&search, &settings.name)?;
    let exact = recorded == Some(own) && present == documents::expected(&settings.name, own);
    Ok(Half { recorded, empty: present.is_empty() && recorded.is_none(), exact })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Half = Half { recorded: None, empty: true, exact: false };

    fn half(shape: Shape, exact: bool) -> Half {
        Half { recorded: Some(shape), empty: false, exact }
    }

    fn plan(marker: Option<&str>, to: &str, rows: Half, documents: Half) -> Option<String> {
        let to = Version::parse(to).unwrap();
        let own = releases::shape_of(&to).unwrap();
        let marker = marker.map(|text| Version::parse(text).unwrap());
        decide(marker, &to, own, rows, documents).ok().map(|plan| plan.to_string())
    }

    #[test]
    fn without_a_marker_empty_databases_are_filled_and_own_content_is_adopted() {
        assert_eq!(plan(None, "1.15.5", NOTHING, NOTHING).as_deref(), Some("fresh"));
        assert_eq!(plan(None, "1.15.5", half(2, true), half(2, true)).as_deref(), Some("adopt"));
    }

    #[test]
    fn without_a_marker_anything_else_is_refused() {
        assert_eq!(plan(None, "1.15.5", half(3, false), half(3, false)), None);
        assert_eq!(plan(None, "1.15.5", half(2, true), NOTHING), None);
        assert_eq!(plan(None, "1.15.5", half(2, true), half(2, false)), None);
    }

    #[test]
    fn an_upgrade_goes_on_where_a_broken_one_stopped() {
        assert_eq!(plan(Some("1.15.5"), "2.0.1", half(2, false), half(2, false)).as_deref(), Some("upgrade 1.15.5"));
        assert_eq!(plan(Some("1.15.5"), "2.0.1", half(3, true), half(2, false)).as_deref(), Some("upgrade 1.15.5"));
        assert_eq!(plan(Some("1.15.5"), "2.0.1", half(1, false), half(2, false)), None);
    }
}
