//! Determines how much memory is available to this process.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The minimum of the machine's memory and the limits of the process's control groups (cgroup v1 and v2). `None` if it
/// cannot be determined.
pub(crate) fn memory() -> Option<u64> {
    memory_under(Path::new("/"))
}

fn memory_under(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| limits_of(root, line));
    limits.chain(machine_memory(root)).min()
}

/// The limits in one line of `/proc/self/cgroup`: of the group and its ancestors. Inside a container the group's path
/// may exist only on the host; its limit is then that of the root.
fn limits_of(root: &Path, line: &str) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (mounted, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    groups
        .filter_map(|group| {
            let file: PathBuf = root.join(mounted).join(group).join(file);
            // "max" means no limit.
            fs::read_to_string(file).ok()?.trim().parse().ok()
        })
        .collect()
}

fn machine_memory(root: &Path) -> Option<u64> {
    let told = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        memory_under(root.path())
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       16384000 kB\nMemFree:         1000000 kB\n",
    );

    #[test]
    fn without_control_groups_it_is_the_machine_s() {
        assert_eq!(machine(&[MEMINFO]), Some(16_384_000 << 10));
        assert_eq!(machine(&[]), None);
    }

    #[test]
    fn the_smallest_limit_of_the_group_and_those_around_it_holds() {
        let group = ("proc/self/cgroup", "0::/system.slice/abide.service\n");
        let slice = ("sys/fs/cgroup/system.slice/memory.max", "2147483648\n");
        let own = "sys/fs/cgroup/system.slice/abide.service/memory.max";
        assert_eq!(
            machine(&[MEMINFO, group, slice, (own, "max\n")]),
            Some(2 << 30)
        );
        assert_eq!(
            machine(&[MEMINFO, group, slice, (own, "536870912\n")]),
            Some(512 << 20)
        );
    }

    #[test]
    fn a_container_s_limit_is_found_at_its_root_in_either_version() {
        let v2 = [
            MEMINFO,
            ("proc/self/cgroup", "0::/../../docker/0a1b\n"),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
        ];
        assert_eq!(machine(&v2), Some(1 << 30));
        let v1 = [
            MEMINFO,
            (
                "proc/self/cgroup",
                "5:cpu,cpuacct:/docker/0a1b\n4:memory:/docker/0a1b\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "805306368\n"),
        ];
        assert_eq!(machine(&v1), Some(768 << 20));
    }

    #[test]
    fn a_limit_above_the_machine_s_memory_does_not_count() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ];
        assert_eq!(machine(&files), Some(16_384_000 << 10));
    }
}
