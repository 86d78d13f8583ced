"""The engine, one shared library beside this file, through its C interface (dedloc.h).

Calls release the interpreter lock for as long as they run. The library links no PyTorch: tensors
are handed over as the addresses of their memory.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from .errors import error_of

TRAINED, CONSTANT, BUFFER, CONSTANT_BUFFER, PRIVATE_BUFFER = range(5)
CANCELLED = 8  # of dedloc_error_kind

GoesOn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_Floats = ctypes.c_void_p
_Self = ctypes.c_void_p


class Error(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("message", ctypes.c_char * 2044)]


class LoopCalls(ctypes.Structure):
    """Lists what a loop can do beyond gradients of its own (dedloc_loop_calls)."""
    _fields_ = [
        ("self", _Self),
        ("compute", ctypes.CFUNCTYPE(ctypes.c_int, _Self, ctypes.c_char_p, ctypes.c_uint64,
                                     ctypes.c_uint64, ctypes.POINTER(ctypes.c_double))),
        ("evaluate", ctypes.CFUNCTYPE(ctypes.c_int, _Self, ctypes.POINTER(ctypes.c_double),
                                      ctypes.POINTER(ctypes.c_double),
                                      ctypes.POINTER(ctypes.c_uint64))),
        ("evaluate_every", ctypes.c_uint64),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("run_file", ctypes.c_char_p), ("join", ctypes.c_char_p), ("resume", ctypes.c_char_p),
        ("directory", ctypes.c_char_p), ("name", ctypes.c_char_p), ("listen", ctypes.c_char_p),
        ("announce", ctypes.c_char_p), ("relays", ctypes.c_char_p),
        ("patience_s", ctypes.c_double), ("goes_on", GoesOn), ("self", ctypes.c_void_p),
        ("calls", ctypes.POINTER(LoopCalls)), ("admit", ctypes.c_char_p),
        ("run_text", ctypes.c_char_p), ("wait_s", ctypes.c_double),
        ("tensorboard", ctypes.c_char_p),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_size_t), ("kind", ctypes.c_int32), ("is_repeated", ctypes.c_int32),
        ("type", ctypes.c_char_p), ("values", ctypes.c_void_p), ("bytes", ctypes.c_size_t),
        ("has_group", ctypes.c_int32), ("rate_factor", ctypes.c_double),
        ("weight_decay", ctypes.c_double), ("is_no_matrix", ctypes.c_int32),
    ]


class ModelCalls(ctypes.Structure):
    _fields_ = [
        ("self", _Self),
        ("load", ctypes.CFUNCTYPE(None, _Self, _Floats, _Floats)),
        ("store", ctypes.CFUNCTYPE(None, _Self, _Floats, _Floats)),
        ("has_gradient", ctypes.CFUNCTYPE(ctypes.c_int, _Self)),
        ("is_sound", ctypes.CFUNCTYPE(ctypes.c_int, _Self, ctypes.c_double)),
        ("add", ctypes.CFUNCTYPE(None, _Self, ctypes.c_double)),
        ("leave_out", ctypes.CFUNCTYPE(None, _Self)),
        ("forget_gradient", ctypes.CFUNCTYPE(None, _Self)),
        ("take_sum", ctypes.CFUNCTYPE(None, _Self, _Floats)),
        ("take_buffers", ctypes.CFUNCTYPE(None, _Self, _Floats, ctypes.c_double)),
        ("forget_sum", ctypes.CFUNCTYPE(None, _Self)),
    ]


class MixtureOptions(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("sizes", ctypes.POINTER(ctypes.c_uint32)),
        ("dimensions", ctypes.c_size_t), ("best", ctypes.c_uint64), ("at_least", ctypes.c_uint64),
    ]


def _path() -> Path:
    given = os.environ.get("DEDLOC_LIBRARY")  # a build folder's, for tests
    return Path(given) if given else Path(__file__).with_name("libdedloc.so")


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_path()))
    loop, error = ctypes.c_void_p, ctypes.POINTER(Error)
    text = [loop, ctypes.c_char_p, ctypes.c_size_t]
    mixture, floats = ctypes.c_void_p, ctypes.c_void_p
    for name, result, arguments in (
        ("join", ctypes.c_int, [ctypes.POINTER(Options), ctypes.POINTER(Tensor), ctypes.c_size_t,
                                ctypes.POINTER(ModelCalls), ctypes.POINTER(loop), error]),
        ("place", None, [loop, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p)]),
        ("step", ctypes.c_int, [loop, ctypes.c_int64, ctypes.c_double, error]),
        ("drop", None, [loop]),
        ("reload", None, [loop]),
        ("leave", ctypes.c_int, [loop, ctypes.c_double, error]),
        ("close", None, [loop]),
        ("finished", ctypes.c_int, [loop]),
        ("global_step", ctypes.c_uint64, [loop]),
        ("seed", ctypes.c_uint64, [loop]),
        ("next_sample", ctypes.c_uint64, [loop]),
        ("target_batch", ctypes.c_uint64, [loop]),
        ("learning_rate", ctypes.c_double, [loop]),
        ("join_string", ctypes.c_size_t, text),
        ("run_file", ctypes.c_size_t, text),
        ("peer_id", ctypes.c_size_t, text),
        ("state_hash", ctypes.c_size_t, text),
        ("status_json", ctypes.c_size_t, text),
        ("next_event", ctypes.c_size_t, text),
        ("web", ctypes.c_int, [loop, ctypes.c_char_p, error]),
        ("web_address", ctypes.c_size_t, text),
        ("mixture_open", ctypes.c_int, [loop, ctypes.POINTER(MixtureOptions),
                                        ctypes.POINTER(mixture), error]),
        ("mixture_forward", ctypes.c_uint64, [mixture, floats, floats, ctypes.c_size_t,
                                              ctypes.c_size_t, floats, ctypes.c_void_p, error]),
        ("mixture_backward", ctypes.c_int, [mixture, ctypes.c_uint64, floats, floats, floats,
                                            error]),
        ("mixture_forget", None, [mixture, ctypes.c_uint64]),
        ("mixture_close", None, [mixture]),
        ("checkpoint_open", ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(Tensor),
                                           ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p),
                                           error]),
        ("checkpoint_parameters", ctypes.c_void_p, [ctypes.c_void_p]),
        ("checkpoint_buffers", ctypes.c_void_p, [ctypes.c_void_p]),
        ("checkpoint_json", ctypes.c_size_t, text),
        ("checkpoint_close", None, [ctypes.c_void_p]),
        ("version", ctypes.c_char_p, []),
    ):
        function = getattr(library, "dedloc_" + name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()


def raise_error(error: Error) -> None:
    raise error_of(error.kind, error.message.decode("utf-8", "replace"))


def text(function, loop) -> str:
    """Reads what a function of the C interface writes, whole."""
    size = 1024
    while True:
        out = ctypes.create_string_buffer(size)
        length = function(loop, out, size)
        if length < size:
            return out.raw[:length].decode("utf-8", "replace")
        size = length + 1
