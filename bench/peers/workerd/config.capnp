# workerd as the benches run it. Address and storage directory come on the command line:
# `--socket-addr http=127.0.0.1:PORT --directory-path storage=DIR`.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .counter),
    (name = "storage", disk = (writable = true)),
  ],
  sockets = [(name = "http", http = (), service = "main")],
);

const counter :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = "2026-11-01",
  durableObjectNamespaces = [
    # Objects stay resident, so that the peer never pays for an eviction between two slices.
    (className = "Counter", uniqueKey = "bench-counter", enableSql = true, preventEviction = true),
    (className = "Bank", uniqueKey = "bench-bank", enableSql = true, preventEviction = true),
    # Rooms leave memory when they are idle, as hibernation needs.
    (className = "Room", uniqueKey = "bench-room", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "storage"),
  bindings = [
    (name = "BANK", durableObjectNamespace = "Bank"),
    (name = "COUNTER", durableObjectNamespace = "Counter"),
    (name = "ROOM", durableObjectNamespace = "Room"),
  ],
);
