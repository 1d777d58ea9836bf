//! The places of secrets in a file, so that its lines can be shown without them.

use saphyr_parser::{Marker, Span};
use svc_step::secret::REDACTED;

/// Where a secret stands in a file, lines and columns (in characters) counted from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hidden {
    from: (usize, usize),
    /// Behind its last character; `None`: the end of the line that it starts in.
    to: Option<(usize, usize)>,
}

impl Hidden {
    /// The place of a value. The reader counts lines from 1.
    pub(crate) fn of(span: &Span) -> Self {
        let place = |mark: &Marker| (mark.line().saturating_sub(1), mark.col());
        Self { from: place(&span.start), to: Some(place(&span.end)) }
    }

    /// The value of one line, from a column on.
    pub(crate) const fn in_line(line: usize, column: usize) -> Self {
        Self { from: (line, column), to: None }
    }

    /// Covers it: the rest of its first line, and its other lines but for their indentation.
    pub(crate) fn cover(&self, lines: &mut [String]) {
        let (first, column) = self.from;
        let (last, end) = self.to.unwrap_or((first, usize::MAX));
        for (at, line) in lines.iter_mut().enumerate().take(last + 1).skip(first) {
            let head = |count| line.chars().take(count).collect::<String>();
            // The end of a block of text is told as the place of what follows it.
            if at > first && at == last && head(end).trim().is_empty() {
                continue;
            }
            let kept = if at == first { head(column) } else { indent(line).to_owned() };
            let covered = line.find(REDACTED).is_some_and(|place| place < kept.len());
            if !covered && kept.len() < line.len() && !line.trim().is_empty() {
                *line = format!("{kept}{REDACTED}");
            }
        }
    }
}

/// The blanks that a line begins with.
pub(crate) fn indent(line: &str) -> &str {
    line.split(|c: char| !c.is_whitespace()).next().unwrap_or_default()
}
