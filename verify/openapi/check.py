"""Starts the programs, and lets schemathesis ask them what their documents say."""

import argparse
import fcntl
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / "target" / "openapi"

# What a program may take to start, and the tester beyond its own time, in seconds.
PATIENCE = 60

# A program, its document, and what would leave the machine if it could.
PROGRAMS = [
    ("billing", ["--quiet-gateway"], "billing", ["register_endpoint"]),
    ("abide", [], "outbox", ["enqueue", "edit"]),
]


def lift_loopback():
    """A new network has a loopback interface, which is down."""
    flags, up = 0x8914, 0x1  # SIOCSIFFLAGS, IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, flags, struct.pack("16sh14x", b"lo", up))


def start(name, options, home):
    """The process and its address."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("ABIDE", "BILLING"))
    }
    environment["ABIDE__ADMIN__LISTEN"] = "127.0.0.1:0"
    log = open(home / "log", "w+b")
    process = subprocess.Popen(
        [ROOT / "target" / "debug" / name, "serve", "--listen", "127.0.0.1:0", "--data", home / "data", *options],
        cwd=home,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
    )
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    for line in process.stdout:
        told = line.decode().strip()
        if told.startswith("listening on "):
            late.cancel()
            return process, told.removeprefix("listening on ").split()[0]
    log.seek(0)
    sys.exit(f"{name} did not start:\n{log.read().decode()}")


def ask(address, path, body=None):
    """The answer in JSON."""
    request = urllib.request.Request(
        address + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def furnish(address):
    """Something to ask for: addresses of a paid subscription, and the ids to use there."""
    product = ask(address, "/v1/products", {"name": "Gold"})["id"]
    month = {"count": 1, "unit": "month"}
    amount = {"amount": 1250, "currency": "EUR"}
    price = ask(address, "/v1/prices", {"product": product, "unit_amount": amount, "every": month})["id"]
    ada = {"name": "Ada", "email": "ada@example.com", "payment_method": "card_ok"}
    customer = ask(address, "/v1/customers", ada)["id"]
    subscription = ask(address, "/v1/subscriptions", {"customer": customer, "price": price})["id"]
    end = time.monotonic() + PATIENCE
    while ask(address, f"/v1/subscriptions/{subscription}")["state"] != "active":
        if time.monotonic() > end:
            sys.exit("the first payment does not succeed")
        time.sleep(0.2)
    invoice = f"in_{subscription}_0"
    return {
        "/v1/subscriptions/": subscription,
        "/v1/invoices/": invoice,
        "/v1/payment-intents/": f"pi_{invoice}_1",
    }


def settings(document, ids, home):
    """The settings of the tester."""
    text = (ROOT / "verify" / "openapi" / f"{document}.toml").read_text()
    for path, one in ids.items():
        text += f"""
[[operations]]
include-path-regex = "^{path}"
parameters = {{ "path.id" = "{one}" }}
"""
    file = home / "schemathesis.toml"
    file.write_text(text)
    return file


def check(program, arguments):
    """Whether a program and its document agree."""
    name, options, document, leaving = program
    home = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=HOME))
    process, address = start(name, options, home)
    print(f"== {document}.openapi.json at {address}", flush=True)
    excluded = [] if arguments.alone else [f"--exclude-operation-id={leaves}" for leaves in leaving]
    try:
        ids = furnish(address) if document == "billing" else {}
        tested = subprocess.run(
            [
                pathlib.Path(sys.executable).parent / "st",
                f"--config-file={settings(document, ids, home)}",
                "run",
                ROOT / "docs" / f"{document}.openapi.json",
                f"--url={address}",
                f"--max-time={arguments.seconds}",
                f"--max-examples={arguments.examples}",
                f"--seed={arguments.seed}",
                "--no-color",
                "--warnings=off",
                "--suppress-health-check=filter_too_much",
                "--continue-on-failure",
                "--generation-database=none",
                *excluded,
            ],
            cwd=home,
            timeout=arguments.seconds + PATIENCE,
        )
        if tested.returncode == 0 and process.poll() is None:
            shutil.rmtree(home)
            return True
        print(f"the program's log is {home / 'log'}", flush=True)
        return False
    finally:
        process.terminate()
        process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--alone", action="store_true", help="this network has no way out")
    parser.add_argument("--seconds", type=int, default=60, help="for each document")
    parser.add_argument("--examples", type=int, default=40, help="of each operation and phase")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="a document")
    arguments = parser.parse_args()
    if arguments.alone:
        lift_loopback()
    chosen = [program for program in PROGRAMS if arguments.only in (None, program[2])]
    sys.exit(0 if all([check(program, arguments) for program in chosen]) else 1)


main()
