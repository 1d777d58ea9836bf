//! The laws on trees that `texts` does not hold of every file: few keys and values, so that they meet often.

use indexmap::IndexMap;
use proptest::prelude::*;
use svc_confsave::Layout;
use svc_confsave::merge::{Outcome, three_way, two_way};
use svc_confsave::tree::{Flat, Paths, Scalar, Tree, flatten};

use crate::cases;

fn leaf() -> impl Strategy<Value = Tree> {
    prop_oneof![
        "[01]".prop_map(|text| Tree::plain(&text)),
        Just(Tree::Scalar(Scalar { text: "no".to_owned(), typed: false, tag: None })),
        Just(Tree::plain("no")),
        prop::collection::vec("[01]".prop_map(|text| Tree::plain(&text)), 0..3).prop_map(|items| Tree::List { tag: None, items }),
    ]
}

fn group(inner: impl Strategy<Value = Tree> + 'static) -> impl Strategy<Value = Tree> {
    prop::collection::vec(("[abc]", inner), 0..4).prop_map(|entries| Tree::group(entries.into_iter().collect::<IndexMap<_, _>>()))
}

/// A configuration: a group of values, lists and groups, some of them empty.
fn config() -> impl Strategy<Value = Flat> {
    group(leaf().prop_recursive(3, 20, 4, |inner| group(inner).boxed())).prop_map(|tree| flatten(&tree))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn second_merge_changes_nothing(base in config(), mine in config(), new in config()) {
        let once = three_way(Layout::Yaml, &base, &mine, &new).result;
        prop_assert_eq!(&three_way(Layout::Yaml, &base, &mine, &once).result, &once);
        for choice in [Some(&[][..]), None, Some(&["a".to_owned()][..])] {
            let once = two_way(Layout::Yaml, &mine, &new, choice).result;
            prop_assert_eq!(&two_way(Layout::Yaml, &mine, &once, choice).result, &once);
        }
    }

    #[test]
    fn every_customised_key_has_exactly_one_decision(base in config(), mine in config(), new in config()) {
        let merge = three_way(Layout::Yaml, &base, &mine, &new);
        let customised: Vec<_> = mine.keys().chain(base.keys()).filter(|path| mine.get(*path) != base.get(*path)).collect();
        for path in &customised {
            prop_assert_eq!(merge.decisions.iter().filter(|decision| decision.path == **path).count() , 1);
        }
        for (path, value) in new.iter().filter(|(path, _)| !customised.contains(path)) {
            prop_assert_eq!(merge.result.get(path), Some(value));
        }
        for decision in &merge.decisions {
            let wanted = if decision.outcome == Outcome::NotCarried { &new } else { &mine };
            prop_assert_eq!(merge.result.get(&decision.path), wanted.get(&decision.path));
        }
    }

    #[test]
    fn no_value_comes_to_stand_above_another(base in config(), mine in config(), new in config()) {
        for result in [three_way(Layout::Yaml, &base, &mine, &new).result, two_way(Layout::Yaml, &mine, &new, None).result] {
            let paths = Paths::of(Layout::Yaml, &result);
            prop_assert!(result.keys().all(|path| !paths.values_below(path)), "{:?}", result);
        }
    }
}
