//! The relational half of each shape.

/// A shape of the relational half.
pub struct Relational {
    /// Leads here from the shape before (from nothing, for the first).
    pub migration: &'static str,
    /// Adds `$1` items and gives their ids back.
    pub insert: &'static str,
    /// The documents of the items above id `$1`, `$2` at most, in the order of their ids.
    pub documents: &'static str,
    /// The tables and views of this shape.
    pub relations: &'static [&'static str],
}

/// The three shapes, the first first.
pub const SHAPES: [Relational; 3] = [
    Relational {
        migration: include_str!("1.sql"),
        insert: include_str!("1.insert.sql"),
        documents: include_str!("1.documents.sql"),
        relations: &["public.content_version", "public.items", "public.open_items", "public.settings"],
    },
    Relational {
        migration: include_str!("2.sql"),
        insert: include_str!("2.insert.sql"),
        documents: include_str!("2.documents.sql"),
        relations: &["public.comments", "public.content_version", "public.items", "public.open_items", "public.settings"],
    },
    Relational {
        migration: include_str!("3.sql"),
        insert: include_str!("3.insert.sql"),
        documents: include_str!("3.documents.sql"),
        relations: &[
            "public.comments",
            "public.content_version",
            "public.item_texts",
            "public.items",
            "public.settings",
            "report.items_by_state",
            "report.runs",
        ],
    },
];
