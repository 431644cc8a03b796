"""Builds the core into shared libraries: one for any processor, and one for x86-64-v3 where that exists.

Run as a script, it builds them into the folder `built` beside the sources. It needs Python alone, and a C++ compiler:
``$CXX``, the system's, or the one that ``pip install ziglang`` brings. The name of a library holds a digest of what it
was made from, so that a stale one is never taken for a new one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE / "built"
# Comparisons and square roots need neither traps nor errno, nor a minus before zero; products may be added exactly.
# Sums are reassociated only where the source says so (omp simd). Nothing is assumed about numbers being finite.
FLAGS = [
    "-std=c++17",
    "-O3",
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
    "-fopenmp-simd",
    "-Wno-pass-failed",
    "-Wno-unknown-attributes",
]
FLAGS += ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-ffp-contract=fast"]
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_X86 = platform.machine().lower() in ("x86_64", "amd64") and sys.maxsize > 2**32
# Variants, with the processor's name for GCC and Clang, and for Zig, which would take this machine's own otherwise.
VARIANTS = (
    {"baseline": ("x86-64", "x86_64"), "v3": ("x86-64-v3", "x86_64_v3")} if _X86 else {"baseline": ("", "baseline")}
)


class BuildError(Exception):
    """The core could not be built; the message says why and what to do."""


def sources() -> list[Path]:
    """The files that the core is made from; none in an installed package, which has only plan.h."""
    return sorted([*HERE.glob("*.hpp"), *HERE.glob("*.cpp"), HERE / "plan.h"]) if (HERE / "core.cpp").exists() else []


def digest() -> str:
    """Digest of the sources and of how they are compiled."""
    content = hashlib.blake2b(repr((FLAGS, VARIANTS)).encode(), digest_size=8)
    for file in sources():
        content.update(file.name.encode() + file.read_bytes())
    return content.hexdigest()


def libraries(folder: Path = BUILT) -> dict[str, Path]:
    """Where the library of each variant is, or belongs."""
    if sources():
        return {variant: folder / f"core-{digest()}-{variant}{SUFFIX}" for variant in VARIANTS}
    return {variant: next(folder.glob(f"core-*-{variant}{SUFFIX}"), folder / "missing") for variant in VARIANTS}


def compiler() -> list[str] | None:
    """The command of a C++ compiler, or None."""
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    for name in ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return [path]
    return [sys.executable, "-m", "ziglang", "c++"] if importlib.util.find_spec("ziglang") else None


def build(folder: Path = BUILT, extra: tuple[str, ...] = ()) -> dict[str, Path]:
    """Compile what is missing and return where the libraries are; processes that ask at the same time build once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        _wait_for(lock)
        wanted = libraries(folder)
        missing = {variant: path for variant, path in wanted.items() if not path.exists()}
        if missing:
            _compile(missing, extra)
        for old in set(folder.glob(f"core-*{SUFFIX}")) - set(wanted.values()):
            old.unlink(missing_ok=True)
    return wanted


def _wait_for(lock: object) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: whoever comes second compiles as well, and replaces the file by an equal one
        return
    fcntl.flock(lock, fcntl.LOCK_EX)  # type: ignore[arg-type]


def _compile(missing: dict[str, Path], extra: tuple[str, ...]) -> None:
    command = compiler()
    if command is None:
        raise BuildError(
            "no C++ compiler was found (CXX, c++, g++, clang++); install one, or that of `pip install ziglang`"
        )
    zig = "ziglang" in command or Path(command[0]).stem == "zig"
    local = [] if sys.platform == "win32" else ["-fPIC"]
    # Peeling a loop until its data are aligned would make sums depend on where an array lies.
    local += ["--param=vect-max-peeling-for-alignment=0"] if _is_gcc(command) else []
    # The core needs nothing of the C++ library, which Zig would compile first.
    linker = [*command[:-1], "cc", "-mcpu=baseline"] if zig else command
    with tempfile.TemporaryDirectory(dir=next(iter(missing.values())).parent) as scratch:
        objects = {variant: str(Path(scratch) / f"{variant}.o") for variant in missing}
        made = {variant: Path(scratch) / path.name for variant, path in missing.items()}
        targets = {v: [f"-mcpu={VARIANTS[v][1]}"] if zig else [f"-march={VARIANTS[v][0]}"] * _X86 for v in missing}
        source = ["-c", str(HERE / "core.cpp"), "-o"]
        _run([[*command, *FLAGS, *local, *targets[v], *extra, *source, objects[v]] for v in missing])
        _run([[*linker, "-shared", *extra, objects[v], "-o", str(made[v])] for v in missing])
        for variant, path in missing.items():
            made[variant].replace(path)


def _run(commands: list[list[str]]) -> None:
    """Run commands side by side; raise what the first that failed said."""
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    said = [process.communicate()[1].strip() for process in running]
    for command, process, text in zip(commands, running, said, strict=True):
        if process.returncode:
            raise BuildError(f"the core could not be compiled by `{shlex.join(command)}`:\n{text[-2000:]}")


def _is_gcc(command: list[str]) -> bool:
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
    return "Free Software Foundation" in said


if __name__ == "__main__":
    print("\n".join(str(path) for path in build().values()))
