//! A value on one line, in braces and brackets: how it must be written inside of such.

use crate::tree::{Scalar, Tree, may_be_typed};

/// The value as one line; `None` where no such line says the same.
pub(crate) fn one_line(tree: &Tree) -> Option<String> {
    let mut line = String::new();
    push(tree, &mut line)?;
    Some(line)
}

fn push(tree: &Tree, line: &mut String) -> Option<()> {
    match tree {
        Tree::Scalar(scalar) => line.push_str(&single(scalar)?),
        Tree::List { tag, items } => {
            line.push_str(&tagged(tag.as_deref()));
            line.push('[');
            for (at, item) in items.iter().enumerate() {
                line.push_str(if at == 0 { "" } else { ", " });
                push(item, line)?;
            }
            line.push(']');
        }
        Tree::Map { tag, entries } => {
            line.push_str(&tagged(tag.as_deref()));
            line.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                line.push_str(if at == 0 { "" } else { ", " });
                line.push_str(&if is_word(key) { key.clone() } else { quoted(key) });
                line.push_str(": ");
                push(value, line)?;
            }
            line.push('}');
        }
        Tree::Alias(_) => return None,
    }
    Some(())
}

/// One that readers may take for a number and the like must stay without quotes, so it may hold no sign of its own meaning here.
fn single(scalar: &Scalar) -> Option<String> {
    let plain = scalar.typed || is_word(&scalar.text);
    let text = match plain {
        true if scalar.text.contains([',', '[', ']', '{', '}', '#', '\n']) => return None,
        true => scalar.text.clone(),
        false => quoted(&scalar.text),
    };
    Some(format!("{}{text}", tagged(scalar.tag.as_deref())))
}

fn tagged(tag: Option<&str>) -> String {
    match tag.map(|tag| (tag, tag.strip_prefix("tag:yaml.org,2002:"))) {
        None => String::new(),
        Some((_, Some(own))) => format!("!!{own} "),
        Some((tag, None)) => format!("{tag} "),
    }
}

/// Letters, digits and some signs, and nobody's word for anything else.
fn is_word(text: &str) -> bool {
    !may_be_typed(text)
        && text.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}

/// In double quotes. What JSON escapes, YAML reads.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_the_same_on_one_line() {
        for text in [
            "a: 1",
            "a: 'no'",
            "a: no",
            "a: ''",
            "a:",
            "a:\n  - b: [1, 'x, y']\n    c d: |\n      one\n      two\n  - ~",
            "a: !!int 5",
            "a: !own {b: c}",
        ] {
            let tree = crate::yaml::read(text).unwrap().tree;
            let line = one_line(&tree).unwrap();
            assert_eq!(crate::yaml::read(&line).unwrap().tree, tree, "{text:?} became {line:?}");
            assert!(!line.contains('\n'), "{line:?}");
        }
        assert_eq!(one_line(&Tree::plain("1,2")), None);
    }
}
