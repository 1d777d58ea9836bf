//! In which encoding a dump is, so that the names in it are read as the server means them.

use std::borrow::Cow;

use encoding_rs::Encoding;

/// How the web calls what PostgreSQL has other names for.
const NAMES: [(&str, &str); 10] = [
    ("EUC_CN", "gbk"),
    ("EUC_JIS_2004", "euc-jp"),
    ("KOI8R", "koi8-r"),
    ("KOI8U", "koi8-u"),
    ("LATIN10", "iso-8859-16"),
    ("LATIN7", "iso-8859-13"),
    ("LATIN8", "iso-8859-14"),
    ("LATIN9", "iso-8859-15"),
    ("UHC", "euc-kr"),
    ("WIN866", "ibm866"),
];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Text {
    /// UTF-8, or one that is not known here (`SQL_ASCII` is none at all): only what is UTF-8 in it can be read.
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
        let other = NAMES.iter().find(|(own, _)| name.eq_ignore_ascii_case(own)).map(|(_, label)| (*label).to_owned());
        let label = other.unwrap_or_else(|| name.to_ascii_lowercase().replace('_', "-").replace("win", "windows-"));
        let encoding =
            Encoding::for_label(label.as_bytes()).filter(|found| found.is_ascii_compatible() && *found != encoding_rs::UTF_8);
        encoding.map_or(Self::Utf8, Self::Other)
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
    fn client_encoding_names_map_to_decoders() {
        let alike = "BIG5 EUC_JP EUC_KR GB18030 GBK ISO_8859_5 ISO_8859_6 ISO_8859_7 ISO_8859_8 LATIN2 LATIN3 LATIN4 LATIN5 LATIN6 SJIS WIN1250 WIN1251 \
                     WIN1252 WIN1253 WIN1254 WIN1255 WIN1256 WIN1257 WIN1258 WIN874";
        for name in alike.split(' ').chain(NAMES.iter().map(|(own, _)| *own)) {
            assert!(matches!(Text::named(name), Text::Other(_)), "{name}");
        }
        assert_eq!(["UTF8", "UNICODE", "SQL_ASCII", "MULE_INTERNAL"].map(Text::named), [Text::Utf8; 4]);
        assert_eq!(Text::named("LATIN1").decode(b"stra\xdfe"), "stra\u{df}e");
        assert_eq!(Text::named("KOI8R").decode(b"\xcd\xc9\xd2"), "\u{43c}\u{438}\u{440}");
        assert_eq!(Text::Utf8.decode("\u{df}".as_bytes()), "\u{df}");
    }
}
