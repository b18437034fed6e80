"""What single calls answer in a directory, a line for each. Run in a vault and on ext4, it says the same but
for the lines that mount_expected.rs names. Needs root, and a mount with devices that may be made read-only."""

import ctypes
import errno
import os
import resource
import signal
import socket
import sys

PLACE = sys.argv[1]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
MS_RDONLY, MS_REMOUNT = 1, 32
RDONLY, WRONLY, RDWR = os.O_RDONLY, os.O_WRONLY, os.O_RDWR


def name_of(error):
    return errno.errorcode.get(error.errno, error.errno)


def tell(what, act):
    try:
        answer = act()
    except OSError as error:
        answer = name_of(error)
    print(f"{what}: {answer}", flush=True)


def limited(limit, act):
    """What `act` answers in a process that may write files of so many bytes."""

    def run():
        reader, writer = os.pipe()
        if os.fork() == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                answer = act()
            except OSError as error:
                answer = name_of(error)
            os.write(writer, str(answer).encode())
            os._exit(0)
        os.wait()
        return os.read(reader, 100).decode()

    return run


def called(result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def sizes():
    def on_new(act):
        return limited(1 << 20, lambda: act(os.open("size", RDWR | os.O_CREAT | os.O_TRUNC, 0o600)))

    tell("truncate past the limit", on_new(lambda fd: os.ftruncate(fd, 1 << 21)))
    tell("truncate by name past it", on_new(lambda fd: os.truncate("size", 1 << 21)))
    tell("write past it", on_new(lambda fd: os.pwrite(fd, b"x", 1 << 21)))
    tell("write across it", on_new(lambda fd: os.pwrite(fd, b"x" * 4096, (1 << 20) - 2048)))
    for mode in (0, 1, 16):
        tell(f"fallocate {mode} past it", on_new(lambda fd: called(LIBC.fallocate(fd, mode, 0, 1 << 21))))


def copies():
    with open("source", "wb") as file:
        file.write(b"a" * 65536)
    open("target", "wb").close()
    os.mkdir("directory")
    os.mkfifo("fifo")
    os.mknod("device", 0o20644, os.makedev(1, 3))

    def copy(source, target, count=4096, at=0, to=0, how=RDONLY, into=WRONLY):
        def run():
            one = os.open(source, how)
            try:
                other = os.open(target, into)
                try:
                    return os.copy_file_range(one, other, count, at, to)
                finally:
                    os.close(other)
            finally:
                os.close(one)

        return run

    last = (1 << 63) - 1
    tell("copy", copy("source", "target"))
    tell("copy to what is open for reading", copy("source", "target", into=RDONLY))
    tell("copy to what is appended to", copy("source", "target", into=WRONLY | os.O_APPEND))
    tell("copy a directory", copy("directory", "target"))
    tell("copy to a directory", copy("source", "directory", into=RDONLY))
    tell("copy a FIFO", copy("fifo", "target", how=RDONLY | os.O_NONBLOCK))
    tell("copy to a FIFO", copy("source", "fifo", into=RDWR | os.O_NONBLOCK))
    tell("copy a device", copy("device", "target"))
    tell("copy to a device", copy("source", "device"))
    tell("copy over itself", copy("source", "source", to=1024, into=RDWR))
    tell("copy within", copy("source", "source", to=8192, into=RDWR))
    tell("copy from behind the end", copy("source", "target", at=1 << 20))
    tell("copy more than there is", copy("source", "target", count=last))
    tell("copy to the last offset", copy("source", "target", to=last - 1))
    tell("copy across the last offset", copy("source", "target", count=8192, to=last - 4096))
    tell("copy up to the limit", limited(2048, copy("source", "target")))
    tell("copy past the limit", limited(2048, copy("source", "target", to=4096)))


def reading_alone():
    """What exists is told to exist, though nothing can be made."""
    for name in ("file", "true"):
        open(name, "w").close()
    os.symlink("nowhere", "dangling")
    socket.socket(socket.AF_UNIX).bind("socket")

    def remount(flags):
        called(LIBC.mount(b"none", PLACE.encode(), None, MS_REMOUNT | flags, None))

    tell("remount to read", lambda: remount(MS_RDONLY))
    tell("make a directory that is there", lambda: os.mkdir("directory"))
    tell("make a device that is there", lambda: os.mknod("device", 0o20644, 0))
    tell("create a file that is there", lambda: os.close(os.open("file", os.O_CREAT | RDONLY)))
    tell("make a symlink that is there", lambda: os.symlink("a", "dangling"))
    tell("make a directory", lambda: os.mkdir("new"))
    tell("make a directory with a slash", lambda: os.mkdir("new/"))
    tell("write to a device", lambda: os.write(os.open("device", RDWR), b"x"))
    tell("open a FIFO to write", lambda: os.close(os.open("fifo", RDWR)))
    tell("create through a symlink", lambda: os.open("dangling", os.O_CREAT | WRONLY))
    tell("open a file to write", lambda: os.open("file", RDWR))
    tell("remount to write", lambda: remount(0))
    tell("write", lambda: os.write(os.open("file", RDWR), b"x"))


def access_times():
    def is_changed(name, act):
        def run():
            os.utime(name, (1, 1), follow_symlinks=False)
            before = os.lstat(name).st_atime_ns
            act()
            return os.lstat(name).st_atime_ns != before

        return run

    tell("access time of a file that is read", is_changed("source", lambda: open("source").read()))
    tell("access time of a directory that is listed", is_changed("directory", lambda: os.listdir("directory")))
    tell("access time of a symlink that is read", is_changed("dangling", lambda: os.readlink("dangling")))


def unnamed():
    """Many files without a name, which go with their descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (6000, 6000))
    files = [os.open(".", os.O_TMPFILE | RDWR, 0o600) for _ in range(5000)]
    for file in files:
        os.close(file)
    return len(files)


signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
os.chdir(PLACE)
sizes()
copies()
reading_alone()
access_times()
tell("files without names", unnamed)
tell("an attribute of 64 KiB", lambda: os.setxattr("file", "user.a", b"v" * 65536))
tell("an attribute of more", lambda: os.setxattr("file", "user.a", b"v" * 65537))
tell("an attribute that is not there", lambda: os.getxattr("file", "user.b"))
