//! A power cut at a chosen moment: strace kills a tool when it enters its nth system call of a kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::random::Random;
use crate::tool::{Ran, Tool};

/// The calls that others can see: a file, a name, a connection, a message.
const CALLS: &str =
    "write,writev,pwrite64,sendto,sendmsg,connect,mkdir,rename,renameat,renameat2,link,linkat,unlink,unlinkat,fsync,fdatasync";

/// A tool enters, in one of its threads, its nth call of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    call: String,
    number: usize,
}

/// Whether this host lets one process trace another; if it does not, `what` is recorded as left out.
pub fn possible(what: &str) -> bool {
    // Programs that the tool runs are let go, so that it is the tool which is killed.
    let tried = Command::new("strace").args(["-f", "-b", "execve", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let possible = tried.is_ok_and(|status| status.success());
    if !possible {
        crate::skip(&format!("{what}, at its system calls: strace cannot trace here"));
    }
    possible
}

fn traced(tool: Tool, options: [&str; 2], output: &Path) -> Tool {
    let [first, second] = options;
    let args = ["-f", "-qq", "-b", "execve", "-e", first, "-e", second, "-o"].map(str::to_owned);
    tool.through("/usr/bin/strace", args.into_iter().chain([output.display().to_string(), "--".to_owned()]))
}

#[track_caller]
pub fn moments(tool: Tool, scratch: &Path) -> (Ran, Vec<Moment>) {
    let trace = scratch.join("trace");
    let ran = traced(tool, ["signal=none", &format!("trace={CALLS}")], &trace).run();
    let text = fs::read_to_string(&trace).unwrap_or_default();
    // A line is `<thread> <call>(…`; each thread has a count of its own, and so has strace.
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut most: BTreeMap<&str, usize> = BTreeMap::new();
    for (thread, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
        if let Some((call, _)) = rest.trim_start().split_once('(')
            && call.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
        {
            let count = counts.entry((call, thread)).or_default();
            *count += 1;
            let most = most.entry(call).or_default();
            *most = (*most).max(*count);
        }
    }
    let all = most.iter().flat_map(|(call, count)| (1..=*count).map(|number| Moment { call: (*call).to_owned(), number }));
    (ran, all.collect())
}

/// Runs a tool and kills it at that moment. It may end before: threads do not do the same in each run.
#[track_caller]
pub fn kill_at(tool: Tool, Moment { call, number }: &Moment) -> Ran {
    let inject = format!("inject={call}:signal=SIGKILL:when={number}");
    traced(tool, [&format!("trace={call}"), &inject], Path::new("/dev/null")).run()
}

/// All of them for a deep run, else so many, spread over all.
pub fn sample(what: &str, all: Vec<Moment>, count: usize, random: &mut Random) -> Vec<Moment> {
    let size = all.len();
    let count = crate::rounds(&format!("{what}, killed at its system calls"), count, size);
    if count >= size {
        return all;
    }
    (0..count).map(|part| all[part * size / count + random.usize(..(size / count).max(1))].clone()).collect()
}
