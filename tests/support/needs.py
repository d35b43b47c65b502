"""What some tests need of the machine; without it they are skipped, saying what is missing."""

from __future__ import annotations

import pytest

from engine.execution.emulate.build import host_compiler
from engine.execution.nvrtc import nvrtc_version
from engine.execution.sass import disassembler

needs_compiler = pytest.mark.skipif(host_compiler() is None, reason="the emulator needs g++ or clang++")
needs_nvrtc = pytest.mark.skipif(nvrtc_version() is None, reason="NVRTC cannot be loaded")
needs_nvdisasm = pytest.mark.skipif(disassembler() is None, reason="nvdisasm is not installed")
