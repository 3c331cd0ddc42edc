//! What was seen last, and whether it is anything new. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto::heartbeat::{Event, Report, Server, ServerState, UsersFile};
use valkey::Info;
use valkey::cluster::{ClusterHealth, ClusterNodes, Node};
use valkey::info::{Persistence, Replication};

/// What one look at the server came to.
pub(super) enum Found {
    /// It answers.
    Answers(Box<Server>),
    /// It reads its data.
    Loading,
    /// It listens, and does not answer as it should.
    NoAnswer,
    /// It answers, and does not let us look.
    Locked,
    /// Nobody listens.
    Nobody,
}

/// What was seen last.
#[derive(Clone)]
pub(super) struct Sight {
    /// Counts what was seen to change; nothing was seen yet at 0.
    pub(super) revision: u64,
    pub(super) report: Arc<Report>,
    /// The run of the server that was seen last.
    run_id: Option<String>,
    essence: Arc<Essence>,
}

impl Default for Sight {
    fn default() -> Self {
        let report = report(ServerState::Starting, UsersFile::default());
        Self { revision: 0, essence: Arc::new(Essence::of(&report)), report: Arc::new(report), run_id: None }
    }
}

/// What stays the same while nothing happens: no counters, no times, and not whether there are keys, which may change every second.
#[derive(PartialEq, Eq)]
struct Essence {
    state: State,
    users: UsersFile,
}

#[derive(PartialEq, Eq)]
enum State {
    Starting,
    Loading,
    Silent,
    Locked,
    Down,
    Up(Box<Up>),
}

#[derive(PartialEq, Eq)]
struct Up {
    /// Version, run and zone.
    server: [Option<String>; 3],
    health: Option<ClusterHealth>,
    nodes: Vec<Node>,
    replication: Option<Replication>,
    persistence: Persistence,
    users: Vec<String>,
    config: BTreeMap<String, String>,
    primary_password: Option<String>,
}

impl Essence {
    fn of(report: &Report) -> Self {
        let state = match &report.server {
            ServerState::Starting | ServerState::Unknown => State::Starting,
            ServerState::Loading => State::Loading,
            ServerState::Silent => State::Silent,
            ServerState::Locked => State::Locked,
            ServerState::Down => State::Down,
            ServerState::Up(server) => State::Up(Box::new(Up::of(server))),
        };
        Self { state, users: report.users.clone() }
    }
}

impl Up {
    fn of(server: &Server) -> Self {
        let info = Info::parse(&server.info);
        let who = info.server();
        Self {
            server: [who.version.map(|version| version.to_string()), who.run_id, who.availability_zone],
            health: ClusterHealth::read(&Info::parse(&server.cluster_info)),
            nodes: ClusterNodes::parse(&server.cluster_nodes).nodes.into_iter().map(without_times).collect(),
            replication: info.replication().map(without_progress),
            persistence: info.persistence(),
            users: server.users.clone(),
            config: server.config.clone(),
            primary_password: server.primary_password.clone(),
        }
    }
}

fn without_times(mut node: Node) -> Node {
    node.ping_sent = 0;
    node.pong_received = 0;
    node
}

fn without_progress(mut replication: Replication) -> Replication {
    replication.offset = None;
    for replica in &mut replication.replicas {
        replica.offset = None;
        replica.lag_seconds = None;
    }
    if let Some(link) = &mut replication.primary {
        link.offset = None;
        link.last_io_seconds = None;
        link.link_down_seconds = None;
    }
    replication
}

fn report(server: ServerState, users: UsersFile) -> Report {
    Report { agent: env!("CARGO_PKG_VERSION").to_owned(), sets_directives: true, server, users }
}

impl Sight {
    /// Whether a server was there, whatever it did.
    fn had_a_server(&self) -> bool {
        matches!(
            self.report.server,
            ServerState::Up(_)
                | ServerState::Loading
                | ServerState::Silent
                | ServerState::Locked
                | ServerState::Down
        )
    }

    /// What is seen after another look, and what happened in between; nothing, if it is the same.
    pub(super) fn then(&self, found: Found, users: UsersFile) -> Option<(Self, Option<Event>)> {
        let state = match found {
            Found::Answers(server) => ServerState::Up(server),
            Found::Loading => ServerState::Loading,
            Found::NoAnswer => ServerState::Silent,
            Found::Locked => ServerState::Locked,
            Found::Nobody if self.had_a_server() => ServerState::Down,
            Found::Nobody => ServerState::Starting,
        };
        let report = report(state, users);
        let essence = Essence::of(&report);
        if self.revision > 0 && essence == *self.essence {
            return None;
        }
        let run_id = match &essence.state {
            State::Up(up) => up.server[1].clone(),
            _ => self.run_id.clone(),
        };
        let next = Self {
            revision: self.revision + 1,
            report: Arc::new(report),
            run_id,
            essence: Arc::new(essence),
        };
        let event = self.died(&next).map(|run_id| Event::ServerDied { run_id });
        Some((next, event))
    }

    /// The run that is over, if one is: nobody listens any more, or somebody else does already.
    fn died(&self, next: &Self) -> Option<String> {
        let before = self.run_id.clone()?;
        let is_told = matches!(self.report.server, ServerState::Down);
        let is_over = matches!(next.report.server, ServerState::Down)
            || next.run_id.as_ref().is_some_and(|after| *after != before);
        (is_over && !is_told).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:30004@31004 myself,master - 0 1426238317239 4 \
                         connected 0-16383";

    fn server(run_id: &str) -> Server {
        Server {
            info: format!(
                "run_id:{run_id}\r\nuptime_in_seconds:5\r\nrole:master\r\nslave0:ip=10.0.0.2,port=6379,state=online,\
                 offset=14,lag=0\r\nmaster_repl_offset:14\r\ndb0:keys=1,expires=0\r\n"
            ),
            cluster_nodes: NODES.to_owned(),
            ..Server::default()
        }
    }

    fn answers(server: Server) -> Found {
        Found::Answers(Box::new(server))
    }

    fn look(sight: &Sight, found: Found) -> Option<(Sight, Option<Event>)> {
        sight.then(found, UsersFile::default())
    }

    fn seen(sight: &Sight, found: Found) -> Sight {
        look(sight, found).expect("something new").0
    }

    fn died(run_id: &str) -> Event {
        Event::ServerDied { run_id: run_id.to_owned() }
    }

    #[test]
    fn the_first_look_is_news_whatever_it_shows() {
        let first = seen(&Sight::default(), Found::Nobody);
        assert_eq!(first.revision, 1);
        assert!(first.report.server == ServerState::Starting);
        assert!(look(&first, Found::Nobody).is_none());
    }

    #[test]
    fn what_only_counts_is_no_news() {
        let up = seen(&Sight::default(), answers(server("a")));
        let later = Server {
            info: server("a").info.replace(":14", ":99").replace("=14", "=99").replace("lag=0", "lag=1")
                + "db1:keys=7,expires=0\r\n",
            cluster_nodes: NODES.replace("1426238317239", "1426238399999"),
            ..server("a")
        };
        assert!(look(&up, answers(later)).is_none());
    }

    #[test]
    fn whatever_a_plan_could_depend_on_is_news() {
        let up = seen(&Sight::default(), answers(server("a")));
        let info = |from: &str, to: &str| Server { info: server("a").info.replace(from, to), ..server("a") };
        let nodes = |from: &str, to: &str| Server { cluster_nodes: NODES.replace(from, to), ..server("a") };
        let config = BTreeMap::from([("maxmemory".to_owned(), "1".to_owned())]);
        for (what, other) in [
            ("a replica that is not online", info("online", "send_bulk")),
            ("no replica", info("slave0", "nobody")),
            ("another epoch", nodes(" 4 ", " 5 ")),
            ("fewer slots", nodes("0-16383", "0-16382")),
            ("another user", Server { users: vec!["user default on".to_owned()], ..server("a") }),
            ("another directive", Server { config, ..server("a") }),
            ("another password", Server { primary_password: Some("f00".to_owned()), ..server("a") }),
        ] {
            assert!(look(&up, answers(other)).is_some(), "{what}");
        }
        let users = UsersFile { loaded: Some("f00".to_owned()), refused: None };
        assert!(up.then(answers(server("a")), users).is_some(), "another users file");
    }

    #[test]
    fn a_server_that_ended_is_told_of_once() {
        let up = seen(&Sight::default(), answers(server("a")));
        let (down, event) = look(&up, Found::Nobody).unwrap();
        assert!(down.report.server == ServerState::Down);
        assert_eq!(event, Some(died("a")));
        assert!(look(&down, Found::Nobody).is_none());
        let (back, event) = look(&down, answers(server("b"))).unwrap();
        assert_eq!((event, back.revision), (None, 3));
    }

    #[test]
    fn a_server_that_was_back_before_anybody_looked_ended_all_the_same() {
        let up = seen(&Sight::default(), answers(server("a")));
        let (_, event) = look(&up, answers(server("b"))).unwrap();
        assert_eq!(event, Some(died("a")));
    }

    #[test]
    fn a_server_that_hangs_has_not_ended() {
        let up = seen(&Sight::default(), answers(server("a")));
        let (silent, event) = look(&up, Found::NoAnswer).unwrap();
        assert_eq!(event, None);
        let (_, event) = look(&silent, answers(server("a"))).unwrap();
        assert_eq!(event, None);
        let (_, event) = look(&silent, Found::Nobody).unwrap();
        assert_eq!(event, Some(died("a")));
    }
}
