//! Text without control characters and terminal escapes.

/// A text on one line, without anything that a terminal would obey.
pub fn clean(text: &str) -> String {
    clean_lines(text).replace(['\n', '\t'], " ")
}

/// The same with its line breaks and tabs.
pub fn clean_lines(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // ESC [ and CSI: as far as the letter that ends it. ESC ] and the like: as far as BEL, ST, or ESC \.
            '\u{1b}' => match letters.next() {
                Some('[') => skip_control(&mut letters),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut letters),
                Some(letter) if ('\u{20}'..='\u{2f}').contains(&letter) => {
                    letters.next();
                }
                _ => {}
            },
            '\u{9b}' => skip_control(&mut letters),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut letters),
            '\n' | '\t' => clean.push(letter),
            letter if letter.is_control() || turns_text(letter) => {}
            letter => clean.push(letter),
        }
    }
    clean
}

fn skip_control(letters: &mut std::iter::Peekable<std::str::Chars>) {
    while letters.next_if(|letter| ('\u{20}'..='\u{3f}').contains(letter)).is_some() {}
    letters.next_if(|letter| ('\u{40}'..='\u{7e}').contains(letter));
}

fn skip_string(letters: &mut std::iter::Peekable<std::str::Chars>) {
    // One without an end takes no more than its line with it.
    while let Some(letter) = letters.next_if(|letter| *letter != '\n') {
        if letter == '\u{7}' || letter == '\u{9c}' || (letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some()) {
            return;
        }
    }
}

/// What turns the direction of the text that follows: a name could look like another.
const fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
