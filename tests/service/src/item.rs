//! An item: a row, and a document of the same identifier.

use std::fmt::Write;

/// The document of a row.
pub struct Item {
    /// The row's key and the document's identifier.
    pub id: i64,
    /// The document as JSON text.
    pub document: String,
}

/// Lines of the bulk interface that store the items.
pub fn bulk_lines(items: &[Item]) -> String {
    let mut lines = String::new();
    for Item { id, document } in items {
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{{\"index\":{{\"_id\":\"{id}\"}}}}\n{document}");
    }
    lines
}
