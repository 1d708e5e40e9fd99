//! Servers and clients that are moved between nodes while they work with each other. Nothing is
//! lost, doubled or wrong, and nobody sees an error.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::common::is_installed;
use crate::shared;

const TOOLS: [&str; 2] = [include_str!("../parallel/tools.sh"), include_str!("moved/tools.sh")];

/// How long programs are moved, in seconds: in every run, and where there is time.
const SHORT: u32 = 5;
const LONG: u32 = 60;

/// A script that moves programs, and what it prints if all is as at home.
struct Service {
    script: &'static str,
    port: u16,
    /// Programs without which the test is left out.
    needs: &'static [&'static str],
    prints: &'static str,
}

const SSH: Service = Service {
    script: include_str!("moved/ssh.sh"),
    port: 7020,
    needs: &["/usr/sbin/sshd", "/usr/bin/ssh"],
    prints: "same\nanswered\nstatus 7\nended 0\n",
};

const REDIS: Service = Service {
    script: include_str!("moved/redis.sh"),
    port: 7021,
    needs: &["/usr/bin/redis-server", "/usr/bin/redis-benchmark"],
    prints: "in order\npiped\nmeasured\nlisted\nended 0\n",
};

const NGINX: Service = Service {
    script: include_str!("moved/nginx.sh"),
    port: 7022,
    needs: &["/usr/sbin/nginx", "/usr/bin/curl"],
    prints: "same\nended 0\n",
};

const POSTGRES: Service = Service {
    script: include_str!("moved/postgres.sh"),
    port: 7023,
    needs: &["/usr/lib/postgresql"],
    prints: "made 0\nfilled 0\ncopied\ncounted\nt|t|t\nended 0\ncopied\ncounted\nt|t|t\nended 0\n",
};

/// Moves the programs of a service for so many seconds, and until so many moves were made.
fn moves(service: &Service, seconds: u32, least: u32) {
    // Each test moves as fast as this machine can.
    static ALONE: Mutex<()> = Mutex::new(());
    if let Some(missing) = service.needs.iter().find(|path| !Path::new(path).exists() && !is_installed(path)) {
        return skip::test(format_args!("{missing} is not there"));
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = shared();
    let script = format!(
        "cd $(mktemp -d) && chmod 755 .\nPORT={} TIME={seconds} LEAST={least}\n{}\n{}",
        service.port,
        TOOLS.join("\n"),
        service.script
    );
    let output = lab.exec("n1", ["timeout", "-s", "KILL", "170", "bash", "-c", &script]).unwrap();
    let text = output.text();
    let (printed, refused) = text.split_once(" moves").unwrap_or_default();
    let made = printed.strip_prefix(service.prints).and_then(|made| made.parse::<u32>().ok());
    assert!(
        output.status.success() && made.is_some_and(|made| made >= least),
        "{text}\n{}\nexpected {}at least {least} moves",
        output.errors(),
        service.prints
    );
    println!("{printed} moves; not made: {refused}");
}

#[test]
fn an_ssh_server_its_sessions_and_its_clients_move() {
    moves(&SSH, SHORT, 5);
}

#[test]
fn a_database_in_memory_and_its_clients_move() {
    moves(&REDIS, SHORT, 4);
}

#[test]
fn clients_of_a_web_server_move() {
    moves(&NGINX, SHORT, 3);
}

#[test]
fn clients_of_a_database_of_many_processes_move() {
    moves(&POSTGRES, SHORT, 3);
}

#[test]
#[ignore = "a minute: --full"]
fn an_ssh_server_its_sessions_and_its_clients_move_for_a_minute() {
    moves(&SSH, LONG, 60);
}

#[test]
#[ignore = "a minute: --full"]
fn a_database_in_memory_and_its_clients_move_for_a_minute() {
    moves(&REDIS, LONG, 50);
}

#[test]
#[ignore = "a minute: --full"]
fn clients_of_a_web_server_move_for_a_minute() {
    moves(&NGINX, LONG, 40);
}

#[test]
#[ignore = "a minute: --full"]
fn clients_of_a_database_of_many_processes_move_for_a_minute() {
    moves(&POSTGRES, LONG, 10);
}
