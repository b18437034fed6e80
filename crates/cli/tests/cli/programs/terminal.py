"""Runs a program at a terminal, and types.

usage: terminal.py INPUT [QUESTION ANSWER]... -- WORDS...

INPUT is standard input, or `-` for the terminal; standard output goes to the file `out`. When the terminal has shown
QUESTION, it is looked for a second whether anything else appears; if so, the answer is not typed, and the program ends
with 99. ANSWER `^C` is that key. The screen goes to standard output, the exit code is the program's, 128 and more for a
signal.
"""
import os
import pty
import select
import sys
import termios
import time

split = sys.argv.index("--")
source, pairs, words = sys.argv[1], sys.argv[2:split], sys.argv[split + 1 :]
child, terminal = pty.fork()
if child == 0:
    if source != "-":
        os.dup2(os.open(source, os.O_RDONLY), 0)
    os.dup2(os.open("out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    os.execvp(words[0], words)

screen = b""


def more(seconds):
    global screen
    if not select.select([terminal], [], [], seconds)[0]:
        return False
    try:
        got = os.read(terminal, 65536)
    except OSError:
        got = b""
    screen += got
    return bool(got)


def give_up(code):
    sys.stdout.buffer.write(screen)
    sys.stdout.flush()
    try:
        os.kill(child, 9)
        os.waitpid(child, 0)
    except OSError:
        pass
    sys.exit(code)


shown = 0
for question, answer in zip(pairs[::2], pairs[1::2]):
    until = time.monotonic() + 120
    while question.encode() not in screen[shown:]:
        if time.monotonic() > until or not more(5) and os.waitpid(child, os.WNOHANG)[0]:
            give_up(98)
    shown = screen.index(question.encode(), shown) + len(question)
    # What is typed before the echo is off would be thrown away.
    is_secret = "Passphrase" in question or "PIN" in question
    while is_secret and termios.tcgetattr(terminal)[3] & termios.ECHO and time.monotonic() < until:
        time.sleep(0.01)
    for _ in range(5):
        if not more(1):
            break
    if screen[shown:].strip(b" :[]yN/()touch,:n") != b"":
        give_up(99)
    shown = len(screen)
    os.write(terminal, b"\x03" if answer == "^C" else answer.encode() + b"\n")
until = time.monotonic() + 120
while time.monotonic() < until:
    ended, status = os.waitpid(child, os.WNOHANG)
    more(0.05)
    if ended:
        while more(0.05):
            pass
        echo = termios.tcgetattr(terminal)[3] & termios.ECHO
        sys.stdout.buffer.write(screen + (b"" if echo else b"\nno echo\n"))
        code = os.waitstatus_to_exitcode(status)
        sys.exit(code if code >= 0 else 128 - code)
give_up(97)
