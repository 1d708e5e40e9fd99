//! The init of a machine on this side: starts QEMU and ends with it.

use std::fs::{self};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::console::last_words;
use super::{client, cpio::Archive, elf, inside, kernel};
use crate::error::{Context, Error, Result};
use crate::programs::{LAB, TERN};
use crate::state::{address, hardware_address};
use crate::task::Task;

/// The time that a machine may take to boot. It takes about ten seconds if this machine is idle.
pub const BOOT_LIMIT: Duration = Duration::from_secs(180);
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(50);

/// A running virtual machine.
pub struct Machine {
    qemu: Child,
    node: String,
    console: PathBuf,
}

impl Machine {
    /// Starts QEMU in this process' network, where the TAP of the node's name is. Waits until the
    /// machine's agent answers.
    pub fn boot(task: &Task) -> Result<Machine> {
        kernel::find_qemu()?;
        let kernel = kernel::find()?;
        let node = format!("n{}", task.index);
        let directory = task.staging.parent().unwrap_or(&task.staging);
        let files = directory.join(format!("{node}.files"));
        let console = directory.join(format!("{node}.console"));
        fs::write(&files, first_files(task, &kernel)?).context(|| format!("write {}", files.display()))?;
        let mut command = command(task, &node, &kernel.image, &files, &console);
        let qemu = command.spawn().context(|| format!("start {}", kernel::QEMU))?;
        let mut machine = Machine { qemu, node, console };
        let ready = machine.wait(task);
        let _ = fs::remove_file(&files);
        ready.map(|()| machine)
    }

    fn wait(&mut self, task: &Task) -> Result<()> {
        let (start, agent) = (Instant::now(), address(task.index));
        while client::clock(agent).is_err() {
            if let Some(why) = self.ended() {
                return Err(Error::Setup { who: self.node.clone(), reason: why });
            }
            if start.elapsed() > BOOT_LIMIT {
                let detail = format!("; its console ends with: {}", last_words(&self.console));
                let what = format!("{} to boot", self.node);
                return Err(Error::Timeout { what, seconds: BOOT_LIMIT.as_secs(), detail });
            }
            sleep(PAUSE);
        }
        client::set_clock_error(agent, super::CLOCK_ERROR_NS)
    }

    /// Tells why the machine has ended; `None` if it runs. A machine that has ended never runs
    /// again.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.qemu.try_wait().ok()??;
        Some(format!("the machine has ended ({status}); its console ends with: {}", last_words(&self.console)))
    }
}

fn command(task: &Task, node: &str, image: &Path, files: &Path, console: &Path) -> Command {
    let memory_bytes = task.options.memory_bytes.unwrap_or(super::MEMORY_BYTES);
    let hardware = hardware_address(task.index).map(|byte| format!("{byte:02x}")).join(":");
    let mut command = Command::new(kernel::QEMU);
    command
        .args(["-machine", "q35", "-accel", "tcg", "-smp", "1", "-nodefaults", "-no-reboot", "-display", "none"])
        .args(["-cpu", &task.options.machine_cpu])
        .args(["-m", &format!("{}M", memory_bytes >> 20)])
        .arg("-kernel")
        .arg(image)
        .arg("-initrd")
        .arg(files)
        .args(["-append", &format!("console=ttyS0 loglevel=4 panic=-1 rdinit=/bin/tern-lab -- {}", inside::FIRST)])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .args(["-netdev", &format!("tap,id=net,ifname={node},script=no,downscript=no")])
        .args(["-device", &format!("virtio-net-pci,netdev=net,mac={hardware},romfile=")])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

fn first_files(task: &Task, kernel: &kernel::Kernel) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    ["bin", "dev", "proc", "root", "modules"].iter().for_each(|directory| archive.directory(directory));
    archive.device("dev/console", 5, 1);
    for (name, path) in [(TERN, &task.programs.tern), (LAB, &task.programs.lab)] {
        let program = fs::read(path).context(|| format!("read {}", path.display()))?;
        archive.file(&format!("bin/{name}"), elf::loaded(&program).as_deref().unwrap_or(&program));
    }
    for (index, module) in kernel::MODULES.iter().enumerate() {
        archive.file(&format!("modules/{index:02}"), &kernel.module(module)?);
    }
    let plan = inside::Plan { index: task.index, options: task.options.clone() };
    let text = serde_json::to_vec(&plan).map_err(std::io::Error::from).context(|| "encode the machine's plan")?;
    archive.file(inside::PLAN, &text);
    Ok(archive.finish())
}
