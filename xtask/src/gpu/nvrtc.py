"""Compiles CUDA sources with NVRTC, without a GPU.

usage: nvrtc.py LIBRARIES ARCHITECTURE OUTPUT [--option=OPTION ...] NAME=SOURCE ...

LIBRARIES is the directory of libnvrtc.so.12. For each NAME, OUTPUT/NAME.ptx is written, and OUTPUT/NAME.cubin where
ARCHITECTURE is a real one (sm_90) and not a virtual one (compute_75).
"""

import ctypes
import glob
import sys

libraries, architecture, output, *rest = sys.argv[1:]
options = ["--gpu-architecture=" + architecture, "--std=c++17", "-default-device"]
options += [word.removeprefix("--option=") for word in rest if word.startswith("--option=")]
sources = [word.split("=", 1) for word in rest if not word.startswith("--option=")]

ctypes.CDLL(glob.glob(libraries + "/libnvrtc-builtins.so.12*")[0], mode=ctypes.RTLD_GLOBAL)
nvrtc = ctypes.CDLL(libraries + "/libnvrtc.so.12")


def read(program, size, content):
    length = ctypes.c_size_t()
    if size(program, ctypes.byref(length)) or length.value == 0:
        return b""
    buffer = ctypes.create_string_buffer(length.value)
    content(program, buffer)
    return buffer.raw


for name, path in sources:
    with open(path, "rb") as file:
        source = file.read()
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None)
    words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), words)
    log = read(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    if status:
        sys.exit("%s: NVRTC fails with code %d: %s" % (name, status, log.decode(errors="replace")))
    ptx = read(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0")
    with open("%s/%s.ptx" % (output, name), "wb") as file:
        file.write(ptx)
    if architecture.startswith("sm_"):
        with open("%s/%s.cubin" % (output, name), "wb") as file:
            file.write(read(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
