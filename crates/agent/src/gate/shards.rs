//! A table of nodes that contradicts itself. Servers write down which shard each node is of, as it told them: of a replica that has just
//! changed its primary, that may be the one it was of before. A server of 8.1 dies of such a table at every start. Pure.

use std::collections::HashMap;

const SHARD: &str = "shard-id=";

/// The same table, in which every replica is of its primary's shard; nothing, if it was so before.
pub(super) fn mended(nodes_conf: &str) -> Option<String> {
    let lines = || nodes_conf.split_inclusive('\n');
    let shards: HashMap<&str, &str> = lines().filter_map(|line| Some((id(line)?, shard(line)?))).collect();
    let mut is_mended = false;
    let mend = |line: &str| {
        let right = primary(line).and_then(|primary| shards.get(primary));
        match (shard(line), right) {
            (Some(wrong), Some(right)) if wrong != *right => {
                is_mended = true;
                line.replacen(&format!("{SHARD}{wrong}"), &format!("{SHARD}{right}"), 1)
            }
            _ => line.to_owned(),
        }
    };
    let text: String = lines().map(mend).collect();
    is_mended.then_some(text)
}

fn id(line: &str) -> Option<&str> {
    line.split_ascii_whitespace().next()
}

/// Whom the node of a line follows.
fn primary(line: &str) -> Option<&str> {
    line.split_ascii_whitespace().nth(3)
}

/// Anything else than an identity is not ours to mend.
fn shard(line: &str) -> Option<&str> {
    let shard = line.split_ascii_whitespace().nth(1)?.split(',').find_map(|part| part.strip_prefix(SHARD))?;
    (shard.len() == 40 && shard.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(shard)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VARS: &str = "vars currentEpoch 6 lastVoteEpoch 0\n";

    fn primary() -> String {
        let shard = "1".repeat(40);
        format!("aaaa 10.0.0.1:1@2,a.svc,tls-port=0,shard-id={shard} master - 0 0 2 connected 0-5460\n")
    }

    fn replica(shard: &str) -> String {
        let shard = shard.repeat(40);
        format!("bbbb 10.0.0.2:1@2,b.svc,tls-port=0,shard-id={shard} myself,slave aaaa 0 0 2 connected\n")
    }

    #[test]
    fn a_replica_is_of_its_primarys_shard() {
        let (wrong, right, primary) = (replica("2"), replica("1"), primary());
        assert_eq!(mended(&format!("{wrong}{primary}{VARS}")), Some(format!("{right}{primary}{VARS}")));
        assert_eq!(mended(&format!("{primary}{wrong}{VARS}")), Some(format!("{primary}{right}{VARS}")));
    }

    #[test]
    fn a_table_that_is_right_or_says_nothing_stays_as_it_is() {
        let nameless = "bbbb 10.0.0.2:1@2 slave aaaa 0 0 2 connected\n";
        let primary = primary();
        for text in [
            format!("{primary}{}{VARS}", replica("1")),
            format!("{primary}{nameless}{VARS}"),
            format!("{primary}{}{VARS}", replica("x")),
            // Of a primary that is not there nobody knows the shard.
            replica("2"),
            "garbage".to_owned(),
            String::new(),
        ] {
            assert_eq!(mended(&text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived_and_only_shards_change(
            text in "([ab]{1,2} [ab],shard-id=(1{40}|2{40}) slave [ab] |x|  - |\n| [ab] ){0,20}",
        ) {
            if let Some(mended) = mended(&text) {
                prop_assert_eq!(mended.len(), text.len());
                prop_assert_eq!(mended.lines().count(), text.lines().count());
            }
        }
    }
}
