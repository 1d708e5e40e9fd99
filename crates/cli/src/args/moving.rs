//! The arguments of `tern move`.

use super::{Output, duration_us, rate};

/// The arguments of `tern move`.
#[derive(Clone, Debug, clap::Args)]
pub struct MoveArgs {
    /// Do not report on standard error that the process was frozen for over a second
    #[arg(long, env = "TERN_QUIET", value_parser = clap::builder::FalseyValueParser::new())]
    pub quiet: bool,
    /// PID at home
    pub pid: i32,
    /// Name of the node; `home` brings the process back
    pub node: String,
    /// Memory strategy: auto (chosen to keep --max-freeze), stop (all memory is sent while the
    /// process is frozen), pre (memory is sent while the process runs, and dirty pages again; only
    /// from home), post (the process resumes on the node at once, and its memory follows), flush
    /// (only from a node: memory is sent to home while the process is frozen, so that the node is
    /// free, and follows from there as with post)
    #[arg(long, value_enum, default_value_t = MemoryStrategy::Auto)]
    pub how: MemoryStrategy,
    /// Allow a node whose CPU lacks features of this one, for programs that have not tested for
    /// them or were started on a lesser CPU
    #[arg(long)]
    pub any_cpu: bool,
    /// Move from one node to another through home instead of directly
    #[arg(long)]
    pub by_home: bool,
    /// Allow processes of root; the node then gets root's rights over this node's files
    /// (permanently: `tern policy set root-on=NODE`)
    #[arg(long)]
    pub as_root: bool,
    /// Move even if memory, descriptors or processes are short on the node; the kernel may kill
    /// processes there for want of memory
    #[arg(long)]
    pub force: bool,
    /// Refuse to move a process that shares memory with others; without this option, they move
    /// together with it (such a group is always frozen while its memory is sent)
    #[arg(long)]
    pub alone: bool,
    /// Bound on the freeze time that auto and pre aim at, such as 50ms or 0.5s
    #[arg(long, value_parser = duration_us, default_value = "100ms")]
    pub max_freeze: u64,
    /// The most bytes per second of the link that the memory may use, such as 500k, 100M or 1G
    /// (powers of 1000)
    #[arg(long, value_parser = rate)]
    pub rate: Option<u64>,
    /// Bytes of memory that are sent at once, from 1k to 1M (powers of 1024); the default is what
    /// the link takes in 10 ms, from 32k to 512k
    #[arg(long, value_parser = control_protocol::moves::parse_buffer)]
    pub buffer: Option<u64>,
    /// Report progress each second even if standard error is no terminal: one JSON object a line
    #[arg(long)]
    pub progress: bool,
    /// Report the time that each phase took
    #[command(flatten)]
    pub output: Output,
}

/// The memory strategies of `--how`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MemoryStrategy {
    /// Chosen to keep the bound on the freeze time
    Auto,
    /// Stop-and-copy: all memory is sent while the process is frozen
    Stop,
    /// Pre-copy: memory is sent while the process runs
    Pre,
    /// Post-copy: the process resumes at once, and its memory follows
    Post,
    /// From a node: post-copy from home's memory
    Flush,
}

impl From<MemoryStrategy> for control_protocol::moves::How {
    fn from(how: MemoryStrategy) -> control_protocol::moves::How {
        match how {
            MemoryStrategy::Auto => control_protocol::moves::How::Auto,
            MemoryStrategy::Stop => control_protocol::moves::How::Stop,
            MemoryStrategy::Pre => control_protocol::moves::How::Pre,
            MemoryStrategy::Post => control_protocol::moves::How::Post,
            MemoryStrategy::Flush => control_protocol::moves::How::Flush,
        }
    }
}
