//! The operator's own users: each may do what it has to, and nothing else.
//!
//! The rules are written as servers list them, and so that every supported release takes them: a server that meets a
//! command it does not know refuses the whole file, and does not start. Subcommands of CLUSTER that only newer releases
//! have cannot be named for that reason. Where they are needed, CLUSTER is given as a whole and the subcommands every
//! release has are taken away again, down to the needed ones; what a newer release adds to CLUSTER comes with it.

/// A user of the operator itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemUser {
    /// Looks, forms, mends and reshapes: as mighty as whoever may write users, but no reader of keys.
    Operator,
    /// Copies data: replicas log in as this at their primary, and a source of slots at their target.
    Replication,
    /// The agent beside a server: looks, has the users' file loaded, ends what it began at the server's start, and has the server
    /// take over from one that is dead.
    Agent,
    /// The metrics exporter: looks, at keys too if its flags say so.
    Exporter,
}

/// What the methods of [`Connection`](crate::Connection) send, SHUTDOWN aside. The keys are for MIGRATE, which is how slots
/// move on releases that cannot do it by themselves; FLUSHALL is for a node that comes back with old keys.
const OPERATOR: &str = "~* resetchannels -@all +ping +info +role +config|get +config|set +acl|list +acl|getuser +acl|setuser \
    +acl|deluser +acl|dryrun +acl|load +acl|whoami +replicaof +migrate +flushall +wait +cluster \
    -cluster|addslots -cluster|count-failure-reports -cluster|delslots -cluster|flushslots -cluster|help \
    -cluster|keyslot -cluster|links -cluster|myshardid -cluster|replicas -cluster|saveconfig -cluster|slaves \
    -cluster|slot-stats -cluster|slots";

/// What agents do for the operator where there is one beside every server: servers cannot limit which directives a user sets, and
/// whoever sets any of them can do anything.
const BY_AGENTS: [&str; 2] = ["+config|set", "+acl|load"];

/// Replication, the second channel of it (SYNC), and the streams of slots, which are written to their target as the
/// commands that make the keys. Flushing is never streamed: it ends the move.
const REPLICATION: &str = "~* resetchannels -@all +ping +psync +sync +replconf +select +@write -flushall -flushdb -swapdb -migrate \
    -function +cluster -cluster|addslots -cluster|addslotsrange -cluster|bumpepoch \
    -cluster|count-failure-reports -cluster|countkeysinslot -cluster|delslots -cluster|delslotsrange \
    -cluster|failover -cluster|flushslots -cluster|forget -cluster|getkeysinslot -cluster|help -cluster|info \
    -cluster|keyslot -cluster|links -cluster|meet -cluster|myid -cluster|myshardid -cluster|nodes \
    -cluster|replicas -cluster|replicate -cluster|reset -cluster|saveconfig -cluster|set-config-epoch \
    -cluster|setslot -cluster|shards -cluster|slaves -cluster|slot-stats -cluster|slots";

/// What tells whether a server is ready and how it is, what makes it read its users again, what lets it take writes again
/// that it held back, what makes it take over from a primary that is dead, and what tells it where others are. Which directives it
/// sees and sets cannot be limited.
const AGENT: &str = "resetchannels -@all +ping +info +role +config|get +config|set +cluster|info +cluster|nodes +cluster|myid \
    +cluster|failover +cluster|meet +acl|list +acl|load +acl|whoami";

/// What the stock exporter sends, with any of its flags. CONFIG GET shows it the replication password: the directives
/// a user may see cannot be told apart.
const EXPORTER: &str = "~* resetchannels -@all +ping +select +client|setname +client|list +info +config|get +cluster|info \
    +cluster|nodes +cluster|slots +slowlog|get +slowlog|len +latency|latest +latency|histogram +memory|usage \
    +scan +type +get +strlen +hlen +llen +scard +zcard +xlen +pfcount +xinfo|stream +xinfo|groups \
    +xinfo|consumers +eval +evalsha +eval_ro";

impl SystemUser {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Operator, Self::Replication, Self::Agent, Self::Exporter];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "_operator",
            Self::Replication => "_replication",
            Self::Agent => "_agent",
            Self::Exporter => "_exporter",
        }
    }

    /// What it may do, as servers list it.
    pub const fn rules(self) -> &'static str {
        match self {
            Self::Operator => OPERATOR,
            Self::Replication => REPLICATION,
            Self::Agent => AGENT,
            Self::Exporter => EXPORTER,
        }
    }

    /// What it may do where every server has an agent beside it that does the rest, as servers list it.
    pub fn rules_beside_agents(self) -> String {
        let is_left = |rule: &&str| self != Self::Operator || !BY_AGENTS.contains(rule);
        self.rules().split(' ').filter(is_left).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_may_do_everything() {
        for user in SystemUser::ALL {
            let rules: Vec<&str> = user.rules().split(' ').collect();
            assert!(rules.iter().all(|rule| !rule.is_empty()), "{user:?}: words stand apart by one space");
            assert!(rules.contains(&"-@all") && !rules.contains(&"+@all"), "{user:?}");
            let categories: Vec<_> = rules.iter().filter(|rule| rule.starts_with("+@")).collect();
            let expected: &[&&str] = if user == SystemUser::Replication { &[&"+@write"] } else { &[] };
            assert_eq!(categories, expected, "{user:?}");
            assert!(user.name().starts_with(crate::acl::RESERVED_PREFIX));
        }
    }

    #[test]
    fn beside_agents_only_the_operator_may_less_and_nothing_else_changes() {
        for user in SystemUser::ALL {
            let less = user.rules_beside_agents();
            let lost: Vec<&str> =
                user.rules().split(' ').filter(|rule| !less.split(' ').any(|left| left == *rule)).collect();
            let expected: &[&str] = if user == SystemUser::Operator { &BY_AGENTS } else { &[] };
            assert_eq!(lost, expected, "{user:?}");
            assert_eq!(less.split(' ').count() + lost.len(), user.rules().split(' ').count(), "{user:?}");
            // Whoever may write users can give itself back what is missing where no agent is left.
            assert!(user != SystemUser::Operator || less.contains("+acl|setuser"));
        }
    }
}
