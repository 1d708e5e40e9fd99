//! Reasons that many rows share.

pub const STREAM: &str =
    "files come from the home through the room's mounts; what must stay home is a stand-in with the same number";
pub const PATH: &str =
    "the room's mounts are the home's file systems, so the kernel's own path walk gives the home's answer";
pub const DESCRIPTOR: &str = "the descriptor table is the body's own";
pub const DUPLICATE: &str =
    "the descriptor table is the body's own; a duplicate of a stand-in must look like what that stands for, too";
pub const MEMORY: &str = "the memory is the body's own";
pub const THREAD: &str = "the thread's own state";
pub const CLOCK: &str = "the time namespace gives the home's monotonic clock; the wall clock is checked to agree";
pub const TIMER: &str = "timers run where the body runs and signal it there";
pub const READY: &str = "readiness of stand-ins is reported by their server, of all else by the kernel";
pub const FUTEX: &str = "threads of one body wait for each other where they run";
pub const SCHED: &str = "scheduling is the hosting machine's; the numbers of threads are the home's";
pub const SCHEDULED: &str = "home's kernel says who may, and how each process is scheduled; the body follows, but for real time the process goes home";
pub const NUMA: &str = "deliberately local: memory nodes are the hosting machine's";
pub const OWN_IDS: &str = "the user namespace shows the home's users and groups";
pub const OWNER: &str =
    "home alone has all ids: the process goes there for one that its room has not; the hosting kernel knows the others";
pub const NOT_WATCHED: &str = "home refuses regular files and directories, which the hosting kernel would take, and is asked first what else is ready";
pub const CREDENTIALS: &str = "who the process is must change in the deputy and in the body alike";
pub const FAMILY: &str = "groups, sessions and parents are the home's";
pub const SIGNAL: &str = "the target may be at home; inside the room the kernel delivers it";
pub const CHILDREN: &str = "children are the home's";
pub const OBJECT: &str =
    "shared memory that bodies make is their room's own; who attaches that of home's processes goes home";
pub const IPC: &str = "its objects are known to the whole home";
pub const WATCH: &str = "it watches what only the home sees change";
pub const MOUNT: &str = "it changes what the home's processes see";
pub const ADMIN: &str = "it administers a machine: the home's, never the hosting one";
pub const TRACE: &str = "it looks into processes that may be at home";
pub const COMPARE: &str =
    "home says whether it may be known, and compares what is its own; what is the room's the hosting kernel does";
pub const MODULE: &str = "it changes a kernel: the home's, never the hosting one's";
pub const FILTER: &str = "a filter of the program's own would see the calls that stand in for others";
pub const RING: &str = "the kernel would do the work unseen by the filter";
pub const KEYS: &str = "key rings belong to the home's session";
pub const SOCKET: &str = "sockets are made at home and stay there, where their peers see them";
pub const SOCKET_DATA: &str =
    "a socket is a stand-in for the home's; one of a socket pair is the body's own, and served by the hosting kernel";
pub const PAIR: &str = "a new pair is the bodies' own";
pub const STAND_IN: &str = "a stand-in (descriptors 0 to 2) must look like what it stands for";
pub const COPY: &str = "of files that stay home, home makes the copy: the room's kernel would keep what it copied";
pub const GONE: &str = "no kernel has it (any more)";
pub const NEVER: &str = "numbers that were never given to a call";
pub const SHARED_MAPPING: &str =
    "stores into a shared mapping would reach the home late; read-only descriptors are let through";
pub const DISPOSITION: &str =
    "what is ignored or left to its default is decided at home, so it is mirrored there; asking is local";
pub const IOCTL: &str = "what it means depends on the descriptor: terminals and other stand-ins are the home's";
pub const FCNTL: &str =
    "flags, owners and signals of descriptors, leases and the size of a home's pipe; the other commands are local";
pub const PIPE: &str = "a new pipe is the body's own until somebody else gets an end of it";
pub const OWN_PID: &str = "the PID namespace gives the home's numbers";
pub const CLONE: &str = "the number is reserved at home first; the tracer lets the call through when it is";
pub const EXEC: &str =
    "the program comes from the home's files; the tracer sees the exec; what gives rights, home executes";
pub const EXIT: &str = "the tracer and the porter see the end";
pub const UNAME: &str =
    "host and domain names are the home's by the UTS namespace; the kernel's release is the hosting one's";
pub const LOCK: &str = "file locks go to the home's server";
pub const UMASK: &str = "applied where files are created, and sent along";
pub const LIMIT_READ: &str =
    "the body has the home's limits; but for those on processes and locked memory, which home answers and keeps";
pub const CHILDRENS_USAGE: &str =
    "the body's own use is counted where it runs; children are the home's, and their bodies ran here";
pub const TAKEN_SIGNAL: &str = "the thread's own state; the tracer puts in who sent a signal at home, and what with it";
pub const MACHINE: &str = "deliberately local: memory size, load and core count are the hosting machine's";
pub const CAPABILITIES: &str = "the deputy's are the true ones; the size of the data depends on a version in memory";
pub const DEVICE_NUMBER: &str = "it names a device of the home";
pub const PRIORITY: &str = "nice values are the home's, and the body's as far as they make it give way";
pub const PRCTL: &str = "names, death signals, subreapers and who may look into it are mirrored at home; rights and promises (securebits, bounding and ambient capabilities, no_new_privs) are home's; the thread's own memory and timers are local";
pub const CLOCK_STATE: &str = "the state of the clock is the home's, as the clock is";
pub const LIMIT: &str = "limits are set for the body and at home";
pub const SYNC: &str = "the home's disks are meant, never the hosting machine's";
pub const AIO: &str = "requests on the body's own descriptors, done by the hosting kernel";
pub const SIGNALFD: &str = "signals are delivered to the body where it runs; one that reads them is sent them with all that they carried at home";
pub const EVENTFD: &str = "a new one is the body's own until somebody else gets it";
pub const SEMAPHORE: &str =
    "a kernel before 6.5 does not tell a semaphore from a counter: there the process goes home before it makes one";
pub const HANDLE: &str = "file handles are the home's file systems' own";
pub const RANDOM: &str = "random bytes may come from any machine";
pub const FAULTS: &str = "it would see the page faults by which the body's memory is moved";
pub const PROBE: &str = "made by the kernel's own probes, never by programs";
pub const SANDBOX: &str = "its rules would hold in the body alone, while the deputy acts for it at home";
pub const CACHE: &str = "deliberately local: what is cached is the hosting machine's";
pub const MOUNT_TABLE: &str = "mounts and namespaces are the home's; the room's own must not show";
pub const LABEL: &str = "security labels are the home's";
