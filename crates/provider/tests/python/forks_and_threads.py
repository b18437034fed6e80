"""In a process that is not ours: no thread comes, forked children go on, and what is not ours falls through."""
import ctypes
import os
import threading
import time

from evp import CIPHERS, Both, Cipher, crypto, seeded

threads = len(os.listdir("/proc/self/task"))
locked = [line for line in open("/proc/self/status") if line.startswith("VmLck")]


def provider_of(name):
    cipher = crypto.EVP_CIPHER_fetch(None, name.encode(), None)
    assert cipher, name
    return crypto.OSSL_PROVIDER_get0_name(crypto.EVP_CIPHER_get0_provider(cipher)).decode()


# The configuration's default properties choose ours where we have it.
for name, *_ in CIPHERS:
    assert provider_of(name) == "strongroom", name
for alias in ("id-aes256-GCM", "2.16.840.1.101.3.4.1.46", "AES256", "aes-128-xts"):
    assert provider_of(alias) == "strongroom", alias
for name in ("AES-256-CCM", "AES-256-OCB", "ChaCha20", "AES-128-CBC-HMAC-SHA256", "DES-EDE3-CBC", "AES-256-ECB"):
    assert provider_of(name) == "default", name

# A child that inherits a context and its parent both go on with it.
for name, key_len, iv_len, kind in CIPHERS:
    rng = seeded(name)
    both = Both(name, "before the fork")
    both.init(rng.randbytes(key_len), rng.randbytes(iv_len), 1)
    both.update(rng.randbytes(777))
    read, write = os.pipe()
    child = os.fork()
    # The parent's and the child's have the same to do.
    both.update(rng.randbytes(5001))
    done = both.update(rng.randbytes(33))[1] + both.final()[1]
    if kind == "aead":
        done += both.tag()[1]
    if child == 0:
        os.write(write, done)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, (name, status)
    assert os.read(read, 1000) == done, name
    os.close(read), os.close(write)

assert len(os.listdir("/proc/self/task")) == threads, "a thread has come"

# Threads with a context each.
failures = []


def work(number):
    try:
        rng = seeded(number)
        for name, key_len, iv_len, _ in CIPHERS:
            both = Both(name, "in a thread")
            both.init(rng.randbytes(key_len), rng.randbytes(iv_len), 1)
            for _ in range(20):
                both.update(rng.randbytes(16 + rng.randrange(3000)))
    except BaseException as failure:
        failures.append(failure)


workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert not failures, failures
# A thread that was joined may be a moment in leaving.
for _ in range(200):
    if len(os.listdir("/proc/self/task")) == threads:
        break
    time.sleep(0.05)
assert len(os.listdir("/proc/self/task")) == threads
assert [line for line in open("/proc/self/status") if line.startswith("VmLck")] == locked

# The error queue says what was wrong, in OpenSSL's words.
ours = Cipher("AES-256-CBC", "strongroom")
crypto.ERR_clear_error()
assert ours.init(bytes(32), bytes(16), 0) == 1 and ours.update(b"x" * 16) == (1, b"")
assert ours.final()[0] == 0
words = []
while code := crypto.ERR_get_error():
    words.append(crypto.ERR_reason_error_string(code))
assert b"bad decrypt" in words, words
print("forks, threads and fall-through are as they should be")
