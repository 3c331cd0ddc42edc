//! The commands about users.

use redis::{Cmd, Value};
use secrecy::SecretString;

use super::connection::{Connection, Request};
use super::error::Error;
use super::reply::text;
use crate::acl::{Listed, Rules, SCRATCH_USER, User, is_secret};

impl Connection {
    /// ACL LIST.
    pub async fn acl_list(&self) -> Result<Listed, Error> {
        self.acl_lines().await.map(|lines| Listed::parse(&lines))
    }

    /// The same in the server's own words, for whoever passes them on.
    pub async fn acl_lines(&self) -> Result<Vec<String>, Error> {
        const NAME: &str = "ACL LIST";
        let lines: Option<Vec<String>> = match self.ask(NAME, acl("LIST")).await? {
            Value::Array(lines) => lines.iter().map(text).collect(),
            _ => None,
        };
        lines.ok_or_else(|| self.protocol(NAME, "no list of lines"))
    }

    /// ACL SETUSER: all rules or none. No password or hash among them shows up in an error.
    pub async fn acl_set_user(&self, name: &str, rules: &Rules) -> Result<(), Error> {
        self.set_user(name, name, rules.words()).await
    }

    /// ACL DELUSER, whose connections end. Users that are not there are no failure; `default` cannot be deleted.
    pub async fn acl_del_users(&self, names: &[&str]) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        let mut command = acl("DELUSER");
        command.arg(names);
        self.ask("ACL DELUSER", command).await.map(drop)
    }

    /// ACL LOAD: the users become those of the file, or nothing changes. Connections of users that are gone end.
    pub async fn acl_load(&self) -> Result<(), Error> {
        self.ask("ACL LOAD", acl("LOAD")).await.map(drop)
    }

    /// ACL WHOAMI.
    pub async fn acl_whoami(&self) -> Result<String, Error> {
        self.ask_text("ACL WHOAMI", acl("WHOAMI")).await
    }

    /// How this server would list a user. It gets the rules, but neither name nor passwords: they are given to a
    /// scratch user nobody can log in as, which is gone afterwards. A rule the server does not take is an error in the
    /// server's words that names the user.
    pub async fn acl_canonical(&self, user: &User) -> Result<String, Error> {
        let permissions = user.permissions().iter().map(String::as_str);
        self.set_user(user.name(), SCRATCH_USER, ["reset", "off"].into_iter().chain(permissions)).await?;
        let listed = self.acl_list().await;
        // Also where listing failed: nothing stays behind if it can be helped.
        self.acl_del_users(&[SCRATCH_USER]).await?;
        let scratch = listed?.users.remove(SCRATCH_USER);
        let scratch =
            scratch.ok_or_else(|| self.protocol("ACL LIST", "not the user that was set just before"))?;
        Ok(user.line_with(&scratch.rules))
    }

    async fn set_user(
        &self,
        called: &str,
        name: &str,
        rules: impl Iterator<Item = &str> + Send,
    ) -> Result<(), Error> {
        let mut command = acl("SETUSER");
        command.arg(name);
        let mut secrets = Vec::new();
        for word in rules {
            command.arg(word);
            secrets.extend(is_secret(word).then(|| SecretString::from(word)));
        }
        let called = format!("ACL SETUSER for {called}");
        self.send(Request { name: &called, command, secrets: secrets.iter().collect() }).await.map(drop)
    }
}

fn acl(subcommand: &str) -> Cmd {
    let mut command = redis::cmd("ACL");
    command.arg(subcommand);
    command
}
