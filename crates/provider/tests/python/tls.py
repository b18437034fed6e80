"""Transfers over TLS 1.3 and 1.2: curl and Python's ssl against `openssl s_server`, the provider on either side
and on both."""
import os
import random
import ssl
import socket
import subprocess
import sys
import threading
import time

WITH, WITHOUT, DIRECTORY = sys.argv[1:4]
LENGTH = 3_000_017
SUITES = [
    ("1.3", "TLS_AES_256_GCM_SHA384"),
    ("1.3", "TLS_AES_128_GCM_SHA256"),
    ("1.3", "TLS_CHACHA20_POLY1305_SHA256"),
    ("1.2", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("1.2", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("1.2", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("1.2", "ECDHE-RSA-AES256-SHA384"),
    ("1.2", "ECDHE-RSA-AES128-SHA"),
]
os.chdir(DIRECTORY)
open("payload", "wb").write(random.Random(1).randbytes(LENGTH))
subprocess.run(
    "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    " -addext subjectAltName=DNS:localhost".split(),
    check=True,
    env={**os.environ, "OPENSSL_CONF": WITHOUT},
    capture_output=True,
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`openssl s_server`, which serves the files here."""

    def __init__(self, version, suite, config):
        self.port = free_port()
        chosen = ["-ciphersuites", suite] if version == "1.3" else ["-cipher", suite]
        flag = "-tls1_3" if version == "1.3" else "-tls1_2"
        command = ["openssl", "s_server", "-accept", str(self.port), "-key", "key.pem", "-cert", "cert.pem"]
        self.process = subprocess.Popen(
            [*command, "-WWW", "-quiet", flag, *chosen],
            env={**os.environ, "OPENSSL_CONF": config},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def loaded(self):
        return "strongroom" in open(f"/proc/{self.process.pid}/maps").read()


def curl(port, version, suite, config):
    chosen = ["--tls13-ciphers", suite] if version == "1.3" else ["--ciphers", suite, "--tls-max", "1.2"]
    subprocess.run(
        ["curl", "-sS", "-o", "received", "--cacert", "cert.pem", *chosen, f"https://localhost:{port}/payload"],
        check=True,
        env={**os.environ, "OPENSSL_CONF": config},
        timeout=900,
    )
    assert open("received", "rb").read() == open("payload", "rb").read(), suite


PYTHON_CLIENT = """
import socket, ssl, sys
port, version, suite = int(sys.argv[1]), sys.argv[2], sys.argv[3]
context = ssl.create_default_context(cafile="cert.pem")
context.maximum_version = ssl.TLSVersion.TLSv1_3 if version == "1.3" else ssl.TLSVersion.TLSv1_2
if version == "1.2":
    context.set_ciphers(suite)
with socket.create_connection(("127.0.0.1", port)) as plain:
    with context.wrap_socket(plain, server_hostname="localhost") as tls:
        assert tls.cipher()[0] == suite, tls.cipher()
        tls.sendall(b"GET /payload HTTP/1.0\\r\\n\\r\\n")
        received = b""
        while chunk := tls.recv(65536):
            received += chunk
assert received.endswith(open("payload", "rb").read()), len(received)
"""


def python(port, version, suite, config):
    subprocess.run(
        [sys.executable, "-c", PYTHON_CLIENT, str(port), version, suite],
        check=True,
        env={**os.environ, "OPENSSL_CONF": config},
        timeout=900,
    )


PYTHON_ECHO = """
import socket, ssl, threading, random
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain("cert.pem", "key.pem")
client = ssl.create_default_context(cafile="cert.pem")
listener = socket.create_server(("127.0.0.1", 0))
message = random.Random(2).randbytes(400_000)
def serve():
    with server.wrap_socket(listener.accept()[0], server_side=True) as tls:
        while chunk := tls.recv(10_000):
            tls.sendall(chunk[::-1])
            tls.sendall(b"")
thread = threading.Thread(target=serve)
thread.start()
rng = random.Random(3)
with client.wrap_socket(socket.create_connection(listener.getsockname()), server_hostname="localhost") as tls:
    while message:
        part, message = message[: rng.randrange(1, 9000)], message
        message = message[len(part):]
        tls.sendall(part)
        echo = b""
        while len(echo) < len(part):
            echo += tls.recv(10_000)
        assert sorted(echo) == sorted(part)
thread.join()
"""

count = 0
for version, suite in SUITES:
    for server_config, client_config in ((WITH, WITHOUT), (WITHOUT, WITH), (WITH, WITH)):
        with Server(version, suite, server_config) as server:
            curl(server.port, version, suite, client_config)
            if version == "1.2" or suite == "TLS_AES_256_GCM_SHA384":
                python(server.port, version, suite, client_config)
            assert server.process.poll() is None, server.process.stderr.read()
            assert server.loaded() == (server_config == WITH)
            count += 1
subprocess.run([sys.executable, "-c", PYTHON_ECHO], check=True, env={**os.environ, "OPENSSL_CONF": WITH}, timeout=900)
print(f"{count} servers were asked by curl and Python's ssl")
