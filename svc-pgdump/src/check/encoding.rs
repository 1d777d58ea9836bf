//! In which encoding a dump is, so that the names in it are read as the server means them.

use std::borrow::Cow;

use encoding_rs::Encoding;

/// How PostgreSQL calls encodings, and how the web does.
const NAMES: [(&str, &str); 35] = [
    ("BIG5", "big5"),
    ("EUC_CN", "gbk"),
    ("EUC_JIS_2004", "euc-jp"),
    ("EUC_JP", "euc-jp"),
    ("EUC_KR", "euc-kr"),
    ("GB18030", "gb18030"),
    ("GBK", "gbk"),
    ("ISO_8859_5", "iso-8859-5"),
    ("ISO_8859_6", "iso-8859-6"),
    ("ISO_8859_7", "iso-8859-7"),
    ("ISO_8859_8", "iso-8859-8"),
    ("KOI8R", "koi8-r"),
    ("KOI8U", "koi8-u"),
    ("LATIN10", "iso-8859-16"),
    ("LATIN2", "iso-8859-2"),
    ("LATIN3", "iso-8859-3"),
    ("LATIN4", "iso-8859-4"),
    ("LATIN5", "iso-8859-9"),
    ("LATIN6", "iso-8859-10"),
    ("LATIN7", "iso-8859-13"),
    ("LATIN8", "iso-8859-14"),
    ("LATIN9", "iso-8859-15"),
    ("SJIS", "shift_jis"),
    ("UHC", "euc-kr"),
    ("WIN1250", "windows-1250"),
    ("WIN1251", "windows-1251"),
    ("WIN1252", "windows-1252"),
    ("WIN1253", "windows-1253"),
    ("WIN1254", "windows-1254"),
    ("WIN1255", "windows-1255"),
    ("WIN1256", "windows-1256"),
    ("WIN1257", "windows-1257"),
    ("WIN1258", "windows-1258"),
    ("WIN866", "ibm866"),
    ("WIN874", "windows-874"),
];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Text {
    /// UTF-8, or one that is not known here (`SQL_ASCII` is none at all), of which only what is UTF-8 can be read.
    #[default]
    Utf8,
    Latin1,
    Other(&'static Encoding),
}

impl Text {
    /// By the name in `SET client_encoding = 'NAME'`.
    pub(super) fn named(name: &str) -> Self {
        if name.eq_ignore_ascii_case("LATIN1") {
            return Self::Latin1;
        }
        let label = NAMES.iter().find(|(own, _)| name.eq_ignore_ascii_case(own)).map(|(_, label)| label);
        label.and_then(|label| Encoding::for_label(label.as_bytes())).map_or(Self::Utf8, Self::Other)
    }

    /// The text of these bytes; what cannot be read is replaced.
    pub(super) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Utf8 => String::from_utf8_lossy(bytes),
            Self::Latin1 => encoding_rs::mem::decode_latin1(bytes),
            Self::Other(encoding) => encoding.decode_without_bom_handling(bytes).0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_that_can_be_read_and_others_are_read_as_utf_8() {
        assert!(NAMES.iter().all(|(own, _)| matches!(Text::named(own), Text::Other(_))));
        assert_eq!(["UTF8", "SQL_ASCII", "MULE_INTERNAL"].map(Text::named), [Text::Utf8; 3]);
        assert_eq!(Text::named("LATIN1").decode(b"stra\xdfe"), "stra\u{df}e");
        assert_eq!(Text::named("KOI8R").decode(b"\xcd\xc9\xd2"), "\u{43c}\u{438}\u{440}");
        assert_eq!(Text::Utf8.decode("\u{df}".as_bytes()), "\u{df}");
    }
}
