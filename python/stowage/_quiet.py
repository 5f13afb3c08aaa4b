"""What an export leaves out beside its work: PyTorch's logging, and the garbage collector's passes."""

import contextlib
import gc
import logging
import os
from typing import Iterator


def _torch_handlers() -> "list[logging.Handler]":
    loggers = [logger for name, logger in logging.root.manager.loggerDict.items()
               if isinstance(logger, logging.Logger) and name.partition(".")[0] in ("torch", "onnxscript")]  # fmt: skip
    return [handler for logger in loggers for handler in logger.handlers]


@contextlib.contextmanager
def quiet_exporter() -> "Iterator[None]":
    """Nothing that PyTorch logs of a failure on its way: whoever catches the exception says what failed. What TORCH_LOGS asks for is logged."""

    def is_kept(record: logging.LogRecord) -> bool:
        return False

    handlers = [] if os.environ.get("TORCH_LOGS") else _torch_handlers()
    try:
        for handler in handlers:
            handler.addFilter(is_kept)
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_kept)


@contextlib.contextmanager
def uncollected() -> "Iterator[None]":
    """The garbage collector waits. An export makes millions of objects that live as long as its program, and going through all of them
    again and again took a tenth of the time of a model of 7 billion parameters."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
