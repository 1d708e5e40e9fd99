//! `ternd`: membership, TLS between daemons, the tool's requests, and starting stewards and
//! wardens. No guest's data passes it.

mod account_names;
mod accounts;
pub mod address;
mod admit;
mod answers;
mod at_home;
mod balance;
mod books;
mod caller;
mod calls;
mod choice;
mod choices;
mod clearing;
mod client;
mod coscheduled;
mod coscheduling;
mod daemon;
mod departure;
mod dial;
mod drain_state;
mod draining;
mod error;
mod evict;
mod evictions;
mod facts;
mod forecast;
mod guests;
mod history;
mod hosted;
mod hosting;
mod hosts;
mod job_registry;
mod jobs;
mod leave;
mod load;
mod local;
mod locks;
mod log;
mod measuring;
mod members;
mod moving;
mod node_rights;
mod owners;
mod pair;
mod pins;
pub mod placed;
mod placement;
mod policy;
mod policy_answers;
mod power;
mod presence;
mod program_hosts;
mod queues;
mod recall;
mod recalls;
mod refuge;
mod reserve;
mod room_files;
mod rooms;
mod root_trust;
mod run_dir;
mod sampling;
mod scope;
mod seal;
mod serve;
mod spawn;
mod steward;
mod strangers;
mod stream;
mod suspending;
mod suspension;
mod swim;
mod turns;
mod watch;
mod why;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::Identity;
use tokio::signal::unix::{SignalKind, signal};

pub use daemon::Options;
pub use error::Error;
pub use leave::abandon;
pub use log::Log;
pub use run_dir::is_served;

use daemon::Daemon;

/// Connections that may wait at the control socket.
const BACKLOG: i32 = 512;

/// Runs the daemon until it is told to end (SIGTERM, SIGINT) or has left its cluster.
///
/// # Errors
/// If it cannot start: no identity, another daemon, an address in use.
pub fn run(options: Options) -> Result<(), Error> {
    let identity = Identity::load(&options.state)?;
    let _lock = run_dir::prepare(&options.run_dir)?;
    facts::raise_pid_max();
    facts::raise_file_queues();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::socket("start the runtime", e))?;
    runtime.block_on(serve_all(options, identity, runtime.handle().clone()))
}

async fn serve_all(options: Options, identity: Identity, runtime: tokio::runtime::Handle) -> Result<(), Error> {
    let listen = |e| Error::socket(format!("listen on {}", options.listen), e);
    let (tcp, udp, port) = bind(options.listen).await.map_err(listen)?;
    let ip = options.listen.ip();
    let others = daemon::known_addresses(&identity)?;
    let listen = SocketAddr::new(if ip.is_unspecified() { address::towards(&others) } else { ip }, port);
    let (swim, commands) = swim::commands::Swim::channel();
    let daemon = Arc::new(Daemon::new(Options { listen, ..options }, identity, swim, runtime)?);
    measuring::start(Arc::clone(&daemon)).map_err(|e| Error::socket("start a thread", e))?;
    jobs::start(Arc::clone(&daemon)).map_err(|e| Error::socket("start a thread", e))?;
    hosts::start(Arc::clone(&daemon)).map_err(|e| Error::socket("start a thread", e))?;
    accounts::start(Arc::clone(&daemon)).map_err(|e| Error::socket("start a thread", e))?;
    draining::start(Arc::clone(&daemon)).map_err(|e| Error::socket("start a thread", e))?;
    presence::start(Arc::clone(&daemon)).map_err(|e| Error::socket("start a thread", e))?;
    balance::start(Arc::clone(&daemon)).map_err(|e| Error::socket("start a thread", e))?;
    rooms::adopt(&daemon);
    // A daemon that died may have left guests frozen.
    clearing::thaw();
    let task = swim::Task::new(Arc::clone(&daemon), udp).ok_or(identity::Error::Malformed { what: "gossip key" })?;
    tokio::spawn(task.run(commands));
    tokio::spawn(serve::run(Arc::clone(&daemon), tcp));
    tokio::spawn(keep_house(Arc::clone(&daemon)));
    tokio::spawn(watch::run(Arc::clone(&daemon)));
    tokio::spawn(evict::keep_out(Arc::clone(&daemon)));
    dial::enter_again(&daemon);
    let socket = control_protocol::paths::daemon_socket(&daemon.options.run_dir);
    let control = packet::listen(&socket, 0o666, BACKLOG)
        .map_err(|e| Error::socket(format!("listen on {}", socket.display()), e))?;
    local::Workers::start(Arc::clone(&daemon), control).map_err(|e| Error::socket("start a thread", e))?;
    let me = daemon.me();
    tracing::info!("node {} serves at {}", me.name, me.address);
    wait_for_end(&daemon).await?;
    daemon.books.save(&daemon.identity);
    tracing::info!("node {} ends; its rooms go on", me.name);
    let _ = std::fs::remove_file(&socket);
    Ok(())
}

/// TCP and UDP on the same port; port 0 (for tests) is one that is free for both. A daemon that was
/// just killed may still hold its port.
async fn bind(address: SocketAddr) -> std::io::Result<(tokio::net::TcpListener, tokio::net::UdpSocket, u16)> {
    let start = Instant::now();
    loop {
        let both = async {
            let tcp = tokio::net::TcpListener::bind(address).await?;
            let port = tcp.local_addr()?.port();
            Ok((tcp, tokio::net::UdpSocket::bind((address.ip(), port)).await?, port))
        };
        let both: std::io::Result<_> = both.await;
        match both {
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && start.elapsed() < run_dir::LAST_GONE_WITHIN => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            result => return result,
        }
    }
}

async fn wait_for_end(daemon: &Arc<Daemon>) -> Result<(), Error> {
    let on = |kind| signal(kind).map_err(|e| Error::socket("wait for signals", e));
    let (mut term, mut int) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => drain_at_end(daemon).await,
        _ = int.recv() => {}
        () = daemon.stop.notified() => return Ok(()),
    }
    daemon.save_members();
    Ok(())
}

/// Sends guests away before the daemon ends, if it was told to.
async fn drain_at_end(daemon: &Arc<Daemon>) {
    let Some(within) = daemon.options.drain_at_end else { return };
    let draining = Arc::clone(daemon);
    if let Err(e) = tokio::task::spawn_blocking(move || draining::before_the_end(&draining, within)).await {
        tracing::warn!("guests are not sent away: {e}");
    }
}

async fn keep_house(daemon: Arc<Daemon>) {
    let mut minute = tokio::time::interval(Duration::from_secs(60));
    loop {
        minute.tick().await;
        if let Err(e) = log::bound(&daemon.options.run_dir) {
            tracing::debug!("log: {e}");
        }
    }
}
