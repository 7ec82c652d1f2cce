//! Operations that the kernel permits or refuses to a worker after it has dropped its privileges. Each attempt runs in
//! a process of its own, with this program.
#![cfg(target_os = "linux")]

mod skip;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc;

use lasthop_sys::privileges::{Tasks, drop_rights};
use lasthop_sys::syscalls::confine;
use skip::without_root;

/// Environment variables with the attempt and its folder.
const ATTEMPT: &str = "LASTHOP_ATTEMPT";
const FOLDER: &str = "LASTHOP_FOLDER";

/// Runs an attempt in another process.
fn attempt(name: &str, folder: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_attempt", "--nocapture", "--test-threads=1"]);
    let backtrace = if name.ends_with("panic") { "1" } else { "0" };
    command.env(ATTEMPT, name).env(FOLDER, folder).env("RUST_BACKTRACE", backtrace).output().unwrap()
}

/// Executes the attempt that a test requests in another process; does nothing by itself.
#[test]
fn the_attempt() {
    let (Ok(name), Ok(folder)) = (std::env::var(ATTEMPT), std::env::var(FOLDER)) else { return };
    let folder = Path::new(&folder);
    let (mode, what) = name.split_once(' ').unwrap();
    let tasks = Tasks { splits: mode == "split", bridges: mode == "bridge" };
    let mut log = File::options().append(true).create(true).open(folder.join("log")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (begin, begun) = mpsc::sync_channel::<()>(0);
    // Permissions belong to a thread, and are inherited by threads that it starts.
    drop_rights(tasks).unwrap();
    let worker = std::thread::spawn(move || {
        begun.recv().unwrap();
        (File::open("/etc/shadow").map(drop), vec![0_u8; 8 << 20].iter().map(|byte| u64::from(*byte)).sum::<u64>())
    });
    confine(tasks).unwrap();
    begin.send(()).unwrap();
    let (shadow, sum) = worker.join().unwrap();
    assert_eq!((shadow.unwrap_err().kind(), sum), (std::io::ErrorKind::PermissionDenied, 0));
    // Open descriptors remain usable.
    log.write_all(b"written\n").unwrap();
    match what {
        "status" => print!("{}", std::fs::read_to_string("/proc/thread-self/status").unwrap()),
        "root's file" => drop(File::open(folder.join("secret")).unwrap()),
        "anybody's file" => drop(OpenOptions::new().write(true).open(folder.join("open")).unwrap()),
        "new file" => {
            drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join("new")).unwrap())
        }
        "read anybody's file" => drop(std::fs::read(folder.join("open")).unwrap()),
        "removal" => std::fs::remove_file(folder.join("open")).unwrap(),
        "program" => drop(Command::new("/bin/true").status().unwrap()),
        "other program" => panic!("{}", std::os::unix::process::CommandExt::exec(&mut Command::new("/bin/true"))),
        "thread" => drop(std::thread::Builder::new().spawn(|| ()).unwrap().join()),
        "unix socket" => drop(UnixStream::pair().unwrap()),
        "datagrams" => drop(UdpSocket::bind("127.0.0.1:0").unwrap()),
        "connection" => drop(TcpStream::connect(address).unwrap()),
        "low port" => drop(TcpListener::bind("127.0.0.1:600").unwrap()),
        "mount" => rustix::mount::unmount("/nowhere", rustix::mount::UnmountFlags::empty()).unwrap(),
        "root again" => rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).unwrap(),
        "panic" => panic!("told"),
        other => panic!("no such attempt: {other}"),
    }
    println!("came through");
}

#[test]
#[ignore = "needs root: make root"]
fn what_only_root_may_do_is_gone() {
    if without_root("rights of the worker") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o777);
    for (name, bits) in [("secret", 0o600), ("open", 0o666)] {
        std::fs::write(folder.path().join(name), "x").unwrap();
        mode(&folder.path().join(name), bits);
    }
    let text = |output: &Output| {
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let denied = ["Permission denied", "PermissionDenied", "Operation not permitted", "Perm"];
    for (name, is_possible) in [
        ("snoop read anybody's file", true),
        ("snoop root's file", false),
        ("snoop anybody's file", false),
        ("snoop new file", false),
        ("snoop removal", false),
        ("snoop thread", false),
        ("snoop unix socket", false),
        ("snoop datagrams", false),
        ("snoop connection", false),
        ("snoop root again", false),
        ("split connection", true),
        ("split low port", true),
        ("split datagrams", false),
        ("split unix socket", false),
        ("split root's file", false),
        ("bridge connection", false),
    ] {
        let output = attempt(name, folder.path());
        let text = text(&output);
        assert_eq!(output.status.success(), is_possible, "{name}: {text}");
        assert_eq!(text.contains("came through"), is_possible, "{name}: {text}");
        assert!(is_possible || denied.iter().any(|words| text.contains(words)), "{name}: {text}");
    }
    assert!(folder.path().join("open").exists() && !folder.path().join("new").exists());
    // A call that no worker makes ends the process.
    for name in ["snoop other program", "split other program", "bridge mount"] {
        let output = attempt(name, folder.path());
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{name}: {}", text(&output));
    }
    // Starting a program through another process fails as well: no process can be created.
    let output = attempt("snoop program", folder.path());
    assert!(!output.status.success(), "{}", text(&output));
    // A panic reports its location.
    let output = attempt("snoop panic", folder.path());
    let said = text(&output);
    assert!(said.contains("told") && said.contains("stack backtrace") && said.contains("the_attempt"), "{said}");

    let output = attempt("snoop status", folder.path());
    let status = text(&output);
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(":\t")).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (key, expected) in [
        ("Groups", ""),
        ("CapInh", "0000000000000000"),
        // CAP_NET_ADMIN and CAP_NET_RAW.
        ("CapPrm", "0000000000003000"),
        ("CapEff", "0000000000003000"),
        ("CapBnd", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        assert_eq!(value(key), expected, "{key}: {status}");
    }
    for key in ["Uid", "Gid"] {
        let ids: Vec<_> = value(key).split(' ').map(str::to_owned).collect();
        assert!(ids.len() == 4 && ids.iter().all(|id| id != "0" && *id == ids[0]), "{key}: {status}");
    }
}
