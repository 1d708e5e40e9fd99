//! The settings of a node, by its owner and its users.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Accept, Mode, Params, RootOn};

/// The first id of ordinary users (Debian policy 9.2.2; login.defs UID_MIN).
const FIRST_USER: u32 = 1000;
/// The id of systemd's and NFS' `nobody`, which is no user either.
const NOBODY: u32 = 65_534;
/// The most users that may opt in.
const USERS_MAX: usize = 4096;

/// The values of `scope`, for help and errors.
pub const SCOPES: &str = "started, users, user:NAME, tree:PID (both with - before them: no more), or mine";

/// Which processes the policy may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Processes started below `tern run`, `tern shell` or `tern make`.
    #[default]
    Tern,
    /// Also all processes of ordinary users.
    Users,
}

/// The device numbers of file systems (`st_dev`) that a program on another node sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Devices {
    /// Home's numbers if the policy moves programs, for they change in mid-run else, which loses
    /// data; the node's if not.
    #[default]
    Auto,
    /// The node's own numbers, until the program is moved. This costs nothing.
    Node,
    /// The numbers that home has.
    Home,
}

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("there is no policy setting {name}: `tern policy show` lists them")]
    Unknown {
        /// The name as given.
        name: String,
    },
    /// The value is not allowed.
    #[error("{name}={value}: {range} is expected")]
    Range {
        /// The name of the setting.
        name: String,
        /// The value as given.
        value: String,
        /// The allowed values.
        range: String,
    },
}

/// The settings of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The policy moves no process away from this node.
    pub stay: bool,
    /// This node hosts processes of other nodes.
    pub guests: bool,
    /// When it does, if it does.
    pub accept: Accept,
    /// This node neither decides nor attracts: it tells others that it takes no guests, and moves
    /// nothing.
    pub quiet: bool,
    /// The policy moves running processes of this home.
    pub moves: bool,
    /// Home is one of the nodes from which the policy chooses for processes of this home.
    pub home: bool,
    /// Whose numbers of file systems programs see that are placed from now on.
    pub devices: Devices,
    /// The processes that the policy may move.
    pub scope: Scope,
    /// Nodes that may host processes with root's rights over this one.
    pub root_on: RootOn,
    /// Nodes whose owners may drain this one.
    pub drain_by: RootOn,
    /// Homes whose processes may use this node's own files, network and devices, as far as
    /// everybody may.
    pub local_by: RootOn,
    /// Homes whose root is root of this node, too, in node-local mode; it may halt the node.
    pub admin_by: RootOn,
    /// Nodes whose owners may coschedule their processes here (`tern cosched`).
    pub cosched_by: RootOn,
    /// Nodes whose owners may see the queues of this one (`tern netmon --all`).
    pub netmon_by: RootOn,
    /// Users who have opted in with all their processes.
    pub users: BTreeSet<u32>,
    /// The numbers of the policy.
    pub params: Params,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            stay: false,
            guests: true,
            accept: Accept::default(),
            quiet: false,
            moves: false,
            home: true,
            devices: Devices::default(),
            scope: Scope::default(),
            root_on: RootOn::default(),
            drain_by: RootOn::default(),
            local_by: RootOn::default(),
            admin_by: RootOn::default(),
            cosched_by: RootOn::default(),
            netmon_by: RootOn::default(),
            users: BTreeSet::new(),
            params: Params::default(),
        }
    }
}

impl Settings {
    /// Whether programs that are placed now see home's numbers of file systems.
    pub fn shows_home_devices(&self) -> bool {
        match self.devices {
            Devices::Auto => self.moves,
            Devices::Node => false,
            Devices::Home => true,
        }
    }

    /// Sets one value.
    ///
    /// # Errors
    /// [`SettingError`], which names the allowed range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let shown = |s: &str| s.chars().take(60).collect::<String>();
        let range =
            |range: &str| SettingError::Range { name: shown(name), value: shown(value), range: range.to_owned() };
        let flag = || match value {
            "on" | "yes" | "true" => Ok(true),
            "off" | "no" | "false" => Ok(false),
            _ => Err(range("on or off")),
        };
        match name {
            "stay" => self.stay = flag()?,
            "guests" => self.guests = flag()?,
            "quiet" => self.quiet = flag()?,
            "moves" => self.moves = flag()?,
            "home" => self.home = flag()?,
            "scope" => {
                self.scope = match value {
                    "tern" | "started" => Scope::Tern,
                    "users" => Scope::Users,
                    _ => return Err(range(SCOPES)),
                }
            }
            "devices" => {
                self.devices = match value {
                    "auto" => Devices::Auto,
                    "node" => Devices::Node,
                    "home" => Devices::Home,
                    _ => return Err(range("auto, node or home")),
                }
            }
            "accept" => self.accept = value.parse().map_err(|_| range(Accept::ALLOWED))?,
            "root-on" => self.root_on = value.parse().map_err(|_| range(RootOn::ALLOWED))?,
            "local-by" => self.local_by = value.parse().map_err(|_| range(RootOn::ALLOWED))?,
            "admin-by" => self.admin_by = value.parse().map_err(|_| range(RootOn::ALLOWED))?,
            "drain-by" => self.drain_by = value.parse().map_err(|_| range(RootOn::ALLOWED))?,
            "cosched-by" => self.cosched_by = value.parse().map_err(|_| range(RootOn::ALLOWED))?,
            "netmon-by" => self.netmon_by = value.parse().map_err(|_| range(RootOn::ALLOWED))?,
            "mode" => {
                self.params.mode = match value {
                    "off" => Mode::Off,
                    "balance" => Mode::Balance,
                    "rotate" => Mode::Rotate,
                    "opportunity" => Mode::Opportunity,
                    _ => return Err(range("off, balance, rotate or opportunity")),
                }
            }
            _ => {
                let (number, allowed) =
                    self.params.number(name).ok_or_else(|| SettingError::Unknown { name: shown(name) })?;
                let words = format!("a number from {} to {}", allowed.start(), allowed.end());
                *number = value.parse().ok().filter(|n| allowed.contains(n)).ok_or_else(|| range(&words))?;
            }
        }
        Ok(())
    }

    /// Lists all settings: name, value, allowed values, and meaning.
    pub fn rows(&self) -> Vec<(&'static str, String, String, &'static str)> {
        let flag = |on: bool| if on { "on" } else { "off" }.to_owned();
        let words = |text: &str| text.to_owned();
        let scope = match self.scope {
            Scope::Tern => "tern",
            Scope::Users => "users",
        };
        let devices = match self.devices {
            Devices::Auto => "auto",
            Devices::Node => "node",
            Devices::Home => "home",
        };
        let mode = match self.params.mode {
            Mode::Off => "off",
            Mode::Balance => "balance",
            Mode::Rotate => "rotate",
            Mode::Opportunity => "opportunity",
        };
        let mut rows = vec![
            ("guests", flag(self.guests), words("on, off"), "This node hosts programs of other nodes"),
            (
                "accept",
                self.accept.to_string(),
                words(Accept::ALLOWED),
                "When it does (guests=on): idle, while nobody uses the machine; hours of its local time",
            ),
            ("stay", flag(self.stay), words("on, off"), "The policy moves no process away from this node"),
            ("moves", flag(self.moves), words("on, off"), "The policy moves running processes of this home"),
            ("home", flag(self.home), words("on, off"), "The policy may choose this node, too, for its own programs"),
            ("quiet", flag(self.quiet), words("on, off"), "This node neither decides nor attracts"),
            (
                "devices",
                words(devices),
                words("auto, node, home"),
                "Whose st_dev programs see that are placed from now on; home: as after a move, 30 to 50 us a stat; \
                 auto: home if moves=on",
            ),
            (
                "scope",
                words(scope),
                words("started (tern), users; mine, user:NAME, tree:PID; -user:NAME, -tree:PID"),
                "Processes that the policy may move: those that tern started, or all of ordinary users",
            ),
        ];
        rows.extend(self.node_rows());
        rows.push((
            "mode",
            words(mode),
            words("off, balance, rotate, opportunity"),
            "How processes are moved for load",
        ));
        let number = |(name, value, least, most, text): (_, u32, u32, u32, _)| {
            (name, value.to_string(), format!("{least} to {most}"), text)
        };
        rows.extend(self.params.numbers().into_iter().map(number));
        rows
    }

    /// Lists the settings that name nodes.
    fn node_rows(&self) -> [(&'static str, String, String, &'static str); 6] {
        let row = |name, nodes: &RootOn, text| (name, nodes.to_string(), RootOn::ALLOWED.to_owned(), text);
        [
            row(
                "root-on",
                &self.root_on,
                "Nodes that may host processes of root; they get root's rights over this node",
            ),
            row("drain-by", &self.drain_by, "Nodes whose root may drain this one from there"),
            row(
                "local-by",
                &self.local_by,
                "Nodes whose processes may use this one's own files, network and devices (tern run --local)",
            ),
            row(
                "admin-by",
                &self.admin_by,
                "Nodes whose root is root of this one, too, in node-local mode, and may halt it (tern halt)",
            ),
            row(
                "cosched-by",
                &self.cosched_by,
                "Nodes whose root may stop and prefer their own processes here (tern cosched, tern gang)",
            ),
            row(
                "netmon-by",
                &self.netmon_by,
                "Nodes whose root may see this one's processes, sockets and queues (tern netmon --all)",
            ),
        ]
    }

    /// Opts a user in with all own processes, or out again.
    ///
    /// # Errors
    /// The user is a system user, or too many users have opted in.
    pub fn opt(&mut self, uid: u32, all_mine: bool) -> Result<(), SettingError> {
        let refused = |range: String| SettingError::Range { name: "scope".into(), value: "mine".into(), range };
        if !is_ordinary(uid) {
            return Err(refused(format!("a user from {FIRST_USER} on (this is {uid}: the system's)")));
        }
        if all_mine && self.users.len() >= USERS_MAX && !self.users.contains(&uid) {
            return Err(refused(format!("at most {USERS_MAX} users")));
        }
        if all_mine {
            self.users.insert(uid)
        } else {
            self.users.remove(&uid)
        };
        Ok(())
    }

    /// Puts all processes of a user in scope, or takes them out again, as root asks. Root's own
    /// processes are possible, too.
    ///
    /// # Errors
    /// Too many users are in scope.
    pub fn put(&mut self, uid: u32, in_scope: bool) -> Result<(), SettingError> {
        if !in_scope {
            self.users.remove(&uid);
        } else if self.users.len() < USERS_MAX || self.users.contains(&uid) {
            self.users.insert(uid);
        } else {
            let range = format!("at most {USERS_MAX} users");
            return Err(SettingError::Range { name: "scope".into(), value: format!("user:{uid}"), range });
        }
        Ok(())
    }

    /// Tells whether the policy may move a process of this user. `below_tern`: one of tern's own
    /// commands started the process.
    pub fn in_scope(&self, uid: u32, below_tern: bool) -> bool {
        below_tern || self.users.contains(&uid) || (is_ordinary(uid) && self.scope == Scope::Users)
    }

    /// Checks that all numbers, for example those read from a file, are within their ranges.
    ///
    /// # Errors
    /// The first number that is out of its range.
    pub fn checked(mut self) -> Result<Settings, SettingError> {
        let numbers = self.params.numbers();
        for (name, value, ..) in numbers {
            self.set(name, &value.to_string())?;
        }
        Ok(self)
    }
}

fn is_ordinary(uid: u32) -> bool {
    uid >= FIRST_USER && uid != NOBODY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        let mut settings = Settings::default();
        let words = |r: Result<(), SettingError>| r.unwrap_err().to_string();
        assert_eq!(words(settings.set("residency_ms", "5")), "residency_ms=5: a number from 10 to 3600000 is expected");
        assert!(words(settings.set("residency_ms", "-1")).contains("from 10 to"));
        assert!(words(settings.set("residency", "5")).contains("`tern policy show` lists them"));
        assert_eq!(words(settings.set("stay", "perhaps")), "stay=perhaps: on or off is expected");
        assert!(words(settings.set("mode", "best")).contains("opportunity"));
        assert_eq!(settings, Settings::default());
        settings.set("residency_ms", "2500").unwrap();
        settings.set("mode", "balance").unwrap();
        assert_eq!((settings.params.residency_ms, settings.params.mode), (2500, Mode::Balance));
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap().checked().unwrap(), settings);
        let damaged = json.replace("2500", "5");
        assert!(serde_json::from_str::<Settings>(&damaged).unwrap().checked().is_err());
    }

    #[test]
    fn every_number_is_held_to_its_range() {
        let mut settings = Settings::default();
        let numbers = settings.params.numbers();
        assert!(numbers.len() > 15);
        for (name, value, least, most, text) in numbers {
            assert!((least..=most).contains(&value) && !text.is_empty(), "{name}");
            let (below, above) = (i64::from(least) - 1, i64::from(most) + 1);
            let wrong =
                [&below.to_string(), &above.to_string(), "4294967296", "1e3", "0x10", "1.5", "nan", " 1", "", "on"];
            for text in wrong {
                let words = settings.set(name, text).unwrap_err().to_string();
                assert_eq!(words, format!("{name}={text}: a number from {least} to {most} is expected"));
            }
            assert_eq!(settings, Settings::default(), "{name}");
            for good in [least, most, value] {
                settings.set(name, &good.to_string()).unwrap();
                assert_eq!(settings.clone().checked().as_ref(), Ok(&settings));
            }
        }
        for flag in ["stay", "guests", "quiet", "moves", "home"] {
            for text in ["1", "", "ON", "maybe"] {
                assert!(settings.set(flag, text).unwrap_err().to_string().ends_with("on or off is expected"), "{flag}");
            }
        }
        let shown: BTreeSet<&str> = settings.rows().into_iter().map(|row| row.0).collect();
        assert!(
            ["stay", "guests", "quiet", "moves", "scope", "root-on", "mode"].iter().all(|name| shown.contains(name)),
            "{shown:?}"
        );
        for (word, wrong) in [("scope", "all"), ("mode", "fast"), ("scope", ""), ("mode", ""), ("root-on", "n1;n2")] {
            assert!(settings.set(word, wrong).unwrap_err().to_string().ends_with("is expected"), "{word}");
        }
        let long = "9".repeat(10_000);
        assert!(settings.set("residency_ms", &long).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn only_what_was_meant_is_in_scope() {
        let mut settings = Settings::default();
        assert!(settings.in_scope(0, true) && !settings.in_scope(1000, false));
        settings.opt(1000, true).unwrap();
        assert!(settings.in_scope(1000, false) && !settings.in_scope(1001, false));
        assert!(settings.opt(0, true).is_err() && settings.opt(65_534, true).is_err());
        settings.set("scope", "users").unwrap();
        assert!(settings.in_scope(1001, false) && !settings.in_scope(33, false) && !settings.in_scope(0, false));
        settings.opt(1000, false).unwrap();
        assert!(settings.users.is_empty());
        settings.put(0, true).unwrap();
        assert!(settings.in_scope(0, false) && !settings.in_scope(33, false));
        settings.put(0, false).unwrap();
        settings.set("scope", "started").unwrap();
        assert!(!settings.in_scope(0, false) && settings.scope == Scope::Tern);
    }

    #[test]
    fn programs_that_may_be_moved_see_homes_devices() {
        let mut settings = Settings::default();
        assert!(!settings.shows_home_devices());
        settings.set("moves", "on").unwrap();
        assert!(settings.shows_home_devices());
        settings.set("devices", "node").unwrap();
        assert!(!settings.shows_home_devices());
        settings.set("devices", "home").unwrap();
        settings.set("moves", "off").unwrap();
        assert!(settings.shows_home_devices());
    }

    #[test]
    fn defaults_are_within_their_ranges() {
        assert_eq!(Settings::default().checked(), Ok(Settings::default()));
    }
}
