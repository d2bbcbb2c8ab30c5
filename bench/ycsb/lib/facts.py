"""What a reader must know about the machine and the server to judge a figure."""

import os
import platform
import shlex
import sys


def _read(path, default="not available"):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return default


def _cpu():
    model = "unknown"
    for line in _read("/proc/cpuinfo", "").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    kind = ", virtual machine" if " hypervisor" in _read("/proc/cpuinfo", "") else ""
    allowed = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return "%s, %d CPUs%s; used: %s" % (model, os.cpu_count(), kind, allowed)


def pin(parser, cpus, own_server):
    """Keep this program, and all it starts, on these CPUs. On one CPU, client
    and server take turns without waking another CPU, which varies least."""
    if not own_server:
        parser.error("--pin: needs the temporary server")
    try:
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    except (ValueError, OSError) as e:
        parser.error("--pin: %s" % e)


def _memory():
    for line in _read("/proc/meminfo", "").splitlines():
        if line.startswith("MemTotal:"):
            return "%d MiB" % (int(line.split()[1]) // 1024)
    return "unknown"


def load_average():
    return " ".join("%.2f" % n for n in os.getloadavg())


def machine():
    thp = "/sys/kernel/mm/transparent_hugepage/"
    return {
        "CPU": _cpu(),
        "memory": _memory(),
        "kernel": platform.release(),
        "memory nodes online": _read("/sys/devices/system/node/online"),
        "page size": "%d bytes" % os.sysconf("SC_PAGESIZE"),
        "transparent huge pages": _read(thp + "enabled") + "; shmem " + _read(thp + "shmem_enabled"),
        "kernel.numa_balancing": _read("/proc/sys/kernel/numa_balancing"),
        "load average at start": load_average(),
    }


def postgres(server):
    found = {"PostgreSQL": server.value("SHOW server_version")}
    rows = server.sql(
        "SELECT name, current_setting(name) FROM pg_settings"
        " WHERE (source NOT IN ('default', 'override', 'client', 'session')"
        " AND name !~ '^(lc_|unix_socket|port|listen|log_|DateStyle|TimeZone|default_text|dynamic_shared)')"
        " OR name IN ('fsync', 'full_page_writes', 'huge_pages', 'plan_cache_mode')"
        " ORDER BY name"
    )
    found["settings"] = ", ".join("%s = %s" % (name, value) for name, value in rows)
    return found


def command():
    """The command line as it can be typed, with the program's name only."""
    program = os.path.basename(sys.argv[0])
    return " ".join([program] + [shlex.quote(a) for a in sys.argv[1:]])
