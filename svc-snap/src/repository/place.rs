//! Where a repository of the type `fs` may lie.

/// Whether a server whose `path.repo` names `folders` may have a repository at `location`.
pub(crate) fn covers(folders: &[String], location: &str) -> bool {
    let with_slash = |path: &str| format!("{}/", path.trim_end_matches('/'));
    folders.iter().any(|folder| with_slash(location).starts_with(&with_slash(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_covers_itself_and_what_is_below_it() {
        let covered = |location: &str| covers(&["/x/".to_owned(), "/y".to_owned()], location);
        assert!(covered("/x") && covered("/y/") && covered("/y/z") && !covered("/yz") && !covered("/"));
    }
}
