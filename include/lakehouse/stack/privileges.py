"""Running a program that refuses root, and one that must not outlive its parent."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import sys

UNPRIVILEGED_USER = "nobody"

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def unprivileged_owner() -> tuple[int, int] | None:
    """User and group that own the files of a program that refuses root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(UNPRIVILEGED_USER)
    return entry.pw_uid, entry.pw_gid


def drop_root() -> None:
    """Become an ordinary user, but go on passing directories that user may not enter; nothing if not root.

    The clone may lie under a folder such as /root. One capability (CAP_DAC_OVERRIDE) kept across exec does it without
    loosening the mode of anybody's folder.
    """
    owner = unprivileged_owner()
    if owner is None:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(owner[1], owner[1], owner[1])
    os.setresuid(owner[0], owner[0], owner[0])
    bit = 1 << _CAP_DAC_OVERRIDE
    sets = (_CapData * 2)(_CapData(bit, bit, bit), _CapData(0, 0, 0))
    _check(libc.capset(ctypes.byref(_CapHeader(_CAPABILITY_VERSION_3, 0)), sets))
    _check(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0))


def die_with_parent(number: signal.Signals, parent: int) -> None:
    """Have the kernel send this signal when the parent dies, however it dies; exit if it is dead already."""
    if sys.platform != "linux":
        return
    _check(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0))
    if os.getppid() != parent:
        sys.exit(1)


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
