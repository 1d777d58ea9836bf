//! What a configuration file says: its settings by their full names, as the servers flatten them (`path: {repo: x}` is
//! `path.repo: x`), and where the one setting stands.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::NAME;
use super::place::{Item, Value, odd};

/// A file's settings.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// All but `path.repo`, in their order, each with its value, style, anchor and tag: what must stay as it is.
    pub others: Vec<String>,
    /// `path.repo`.
    pub value: Option<Value>,
    /// What stands before the first setting of the file in its line.
    pub margin: String,
}

/// A group or a list that is not closed yet.
#[derive(Debug)]
enum Open {
    /// The group of that name, and the key whose value comes next: its full name and where it ends.
    Group { name: String, key: Option<(String, usize)> },
    /// The list of that name.
    List { name: String, count: usize },
    /// The list that is the value itself: `[`, or not.
    Wanted { items: Vec<Item>, open: Option<usize> },
}

struct Reader<'a> {
    text: &'a str,
    view: &'a View,
    open: Vec<Open>,
    read: Settings,
    seen: bool,
    documents: usize,
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// It is no YAML, or has the setting twice or in a form that is not understood, as the end of a sentence.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        // The servers' parser takes no tab there; ours is not so strict.
        let is_tabbed = |line: &str| {
            let body = line.trim_start();
            !body.is_empty() && !body.starts_with('#') && line.strip_suffix(body).is_some_and(|margin| margin.contains('\t'))
        };
        if let Some(number) = text.lines().position(is_tabbed) {
            return Err(format!("line {} is indented with a tab", number + 1));
        }
        let mut view = View::of(text);
        loop {
            match Self::read_view(&view, text) {
                Err(Fault::Margin { character }) if view.added < MOST_ADDED => view.add_a_space(character),
                Err(Fault::Margin { .. }) => return Err(odd()),
                Err(Fault::Why(why)) => return Err(why),
                Ok(read) => return Ok(read),
            }
        }
    }

    fn read_view(view: &View, text: &str) -> Result<Self, Fault> {
        let mut reader = Reader { text, view, open: Vec::new(), read: Self::default(), seen: false, documents: 0 };
        let mut parser = Parser::new_from_str(&view.text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| Fault::of(&error))?;
            reader.take(event, span).map_err(Fault::Why)?;
        }
        Ok(reader.read)
    }
}

/// So many spaces may be added to a view.
const MOST_ADDED: usize = 200;

/// Why the parser stopped.
#[derive(Debug)]
enum Fault {
    /// The end of a sentence.
    Why(String),
    /// A line of a list in brackets stands too far to the left.
    Margin { character: usize },
}

impl Fault {
    fn of(error: &ScanError) -> Self {
        match error.info() {
            "invalid indentation" | "invalid indentation in flow construct" => Self::Margin { character: error.marker().index() },
            info => Self::Why(format!("line {} is no YAML ({info})", error.marker().line())),
        }
    }
}

/// The file as the parser gets it. The parser follows the letter of YAML 1.2, by which the lines of a list in brackets, the
/// closing one too, stand further to the right than their key. The servers do not ask for that, and people do not do it; so
/// spaces are added there, which mean nothing within brackets.
struct View {
    text: String,
    /// Where in the file each character begins, and the end: the parser counts characters.
    places: Vec<usize>,
    added: usize,
}

impl View {
    fn of(text: &str) -> Self {
        let places = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        Self { text: text.to_owned(), places, added: 0 }
    }

    fn add_a_space(&mut self, character: usize) {
        self.added += 1;
        let at = self.text.char_indices().nth(character).map_or(self.text.len(), |(at, _)| at);
        self.text.insert(at, ' ');
        self.places.insert(character.min(self.places.len()), self.place(character));
    }

    fn place(&self, character: usize) -> usize {
        self.places.get(character).or(self.places.last()).copied().unwrap_or(0)
    }
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err("it holds more than one document".to_owned());
                }
            }
            Event::Scalar(value, style, anchor, tag) => {
                let dressed = anchor > 0 || tag.is_some();
                let at = self.bytes(span, style);
                self.scalar(&value, style, dressed, at, &format!("{style:?} {anchor} {tag:?}"))?;
            }
            Event::Alias(anchor) => self.leaf(&format!("alias {anchor}"))?,
            Event::SequenceStart(anchor, tag) => {
                let name = self.next_name(span)?;
                if name == NAME {
                    self.begin_wanted(anchor > 0 || tag.is_some(), span)?;
                } else {
                    self.read.others.push(format!("{name} list {anchor} {tag:?}"));
                    self.open.push(Open::List { name, count: 0 });
                }
            }
            Event::MappingStart(anchor, tag) => {
                let root = self.open.is_empty();
                let name = self.next_name(span)?;
                if root {
                    self.note_margin(span);
                } else {
                    self.read.others.push(format!("{name} group {anchor} {tag:?}"));
                }
                self.open.push(Open::Group { name, key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open::Wanted { items, open }) = self.open.pop() {
                    self.read.value = Some(match open {
                        Some(open) => Value::Flow { items, open },
                        None => Value::Block { items },
                    });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn scalar(&mut self, value: &str, style: ScalarStyle, dressed: bool, at: Range<usize>, how: &str) -> Result<(), String> {
        match self.open.last_mut() {
            Some(Open::Group { name, key: key @ None }) => {
                let full = if name.is_empty() { value.to_owned() } else { format!("{name}.{value}") };
                if full.starts_with(&format!("{NAME}.")) {
                    return Err(odd());
                }
                *key = Some((full, at.end));
                Ok(())
            }
            Some(Open::Wanted { items, .. }) => {
                if dressed || !is_plain(style) || !one_line(self.text, &at) {
                    return Err(odd());
                }
                items.push(Item { folder: value.to_owned(), at });
                Ok(())
            }
            Some(Open::Group { key: Some((full, key_end)), .. }) if full == NAME => {
                let key_end = *key_end;
                self.next_name(Span::default())?;
                self.only_once()?;
                self.read.value = Some(self.single(value, style, dressed, at, key_end)?);
                Ok(())
            }
            _ => self.leaf(&format!("{value:?} {how}")),
        }
    }

    /// The value that is one text.
    fn single(&self, value: &str, style: ScalarStyle, dressed: bool, at: Range<usize>, key_end: usize) -> Result<Value, String> {
        if dressed || !is_plain(style) || !one_line(self.text, &at) {
            return Err(odd());
        }
        if at.is_empty() {
            let colon = self.text.get(key_end..).and_then(|rest| rest.find(':')).ok_or_else(odd)?;
            return Ok(Value::Nothing { at: key_end + colon + 1 });
        }
        let is_null = style == ScalarStyle::Plain && matches!(value, "~" | "null" | "Null" | "NULL");
        let parts = value.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty() && !is_null);
        Ok(Value::Text { folders: parts.collect(), at })
    }

    fn begin_wanted(&mut self, dressed: bool, span: Span) -> Result<(), String> {
        self.only_once()?;
        if dressed {
            return Err(odd());
        }
        let start = self.byte(span.start.index());
        let open = self.text.get(start..).filter(|rest| rest.starts_with('[')).map(|_| start + 1);
        self.open.push(Open::Wanted { items: Vec::new(), open });
        Ok(())
    }

    fn only_once(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.seen, true) {
            return Err("it has path.repo more than once".to_owned());
        }
        Ok(())
    }

    /// A value that is left alone.
    fn leaf(&mut self, what: &str) -> Result<(), String> {
        let name = self.next_name(Span::default())?;
        if name == NAME {
            return Err(odd());
        }
        self.read.others.push(format!("{name} {what}"));
        Ok(())
    }

    /// The full name of the value that begins here.
    fn next_name(&mut self, span: Span) -> Result<String, String> {
        match self.open.last_mut() {
            None => Ok(String::new()),
            Some(Open::Group { key, .. }) => {
                key.take().map(|(name, _)| name).ok_or_else(|| format!("line {} has a key that is no text", span.start.line()))
            }
            Some(Open::List { name, count }) => {
                *count += 1;
                Ok(format!("{name}[{count}]"))
            }
            Some(Open::Wanted { .. }) => Err(odd()),
        }
    }

    fn note_margin(&mut self, span: Span) {
        let start = self.byte(span.start.index());
        let head = self.text.get(..start).unwrap_or_default();
        let line = head.rfind('\n').map_or(head, |at| head.get(at + 1..).unwrap_or_default());
        if line.chars().all(|one| one == ' ') {
            line.clone_into(&mut self.read.margin);
        }
    }

    fn byte(&self, character: usize) -> usize {
        self.view.place(character)
    }

    /// The bytes of a single value. The parser's own end may lie behind a comment.
    fn bytes(&self, span: Span, style: ScalarStyle) -> Range<usize> {
        let (start, end) = (self.byte(span.start.index()), self.byte(span.end.index()));
        let text = self.text.get(start..end).unwrap_or_default();
        let length = match style {
            ScalarStyle::DoubleQuoted | ScalarStyle::SingleQuoted => quoted_length(text),
            _ => text.trim_end().len(),
        };
        start..start + length
    }
}

/// The length of a quoted text with its quotes.
fn quoted_length(text: &str) -> usize {
    let mut rest = text.char_indices();
    let quote = rest.next().map(|(_, quote)| quote);
    while let Some((at, one)) = rest.next() {
        if quote == Some('"') && one == '\\' {
            rest.next();
        } else if Some(one) == quote {
            // In single quotes, two of them are one.
            let doubled = one == '\'' && text.get(at + 1..).is_some_and(|rest| rest.starts_with(one));
            if !doubled {
                return at + 1;
            }
            rest.next();
        }
    }
    text.len()
}

fn is_plain(style: ScalarStyle) -> bool {
    matches!(style, ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted)
}

fn one_line(text: &str, at: &Range<usize>) -> bool {
    text.get(at.clone()).is_some_and(|text| !text.contains('\n'))
}
