"""Machine code: disassembled by NVIDIA's nvdisasm, its instructions counted by the pipe that issues them."""

from engine.execution.sass.mix import InstructionMix, instruction_mix
from engine.execution.sass.nvdisasm import NO_TOOL, disassemble, disassembler

__all__ = ["NO_TOOL", "InstructionMix", "disassemble", "disassembler", "instruction_mix"]
